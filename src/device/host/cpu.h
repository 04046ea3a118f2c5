// The CPU of this machine and the part of it we may use.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "device/gpu.h"
#include "device/sysfs.h"

namespace sluice::device {

// Reads /proc and /sys below `root`, so a test can hand in a recorded tree. What
// cannot be read keeps its default; at least one usable core is always reported.
// Never throws for what it finds. Thread-safe.
Cpu detect_cpu(const Path& root = "/");

// A line of /proc/meminfo ("MemTotal:  24682416 kB", with or without "Node 0 " before it), in
// bytes.
std::optional<std::uint64_t> meminfo_bytes(std::string_view text, std::string_view key);

}  // namespace sluice::device

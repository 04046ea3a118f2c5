// Detects NVIDIA's Multi-Process Service and reads its limits from outside.
#pragma once

#include <cstdint>
#include <string>

namespace sluice::broker {

// Whether the control daemon of this pipe folder runs, by the process number it left there.
bool mps_daemon_runs(const std::string& pipe_dir, const std::string& proc);

// The value a variable had when the process was started; empty when it had none, or
// that cannot be read. What a program set later cannot be seen.
std::string started_with(std::int64_t pid, const std::string& variable, const std::string& proc);

}  // namespace sluice::broker

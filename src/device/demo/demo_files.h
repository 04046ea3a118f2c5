// Demo scenarios that the build embeds for demo.cc.
#pragma once

#include <span>
#include <string_view>

namespace sluice::device {

struct DemoFile {
  std::string_view name;  // of a scenario; empty for the fake library itself, which is first
  const char *begin, *end;

  std::string_view bytes() const noexcept { return {begin, static_cast<std::size_t>(end - begin)}; }
};

// Scenarios are sorted by name. Defined in the file that the build writes.
std::span<const DemoFile> demo_files() noexcept;

}  // namespace sluice::device

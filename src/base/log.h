// The program's log: one line per event on stderr, level first. Nothing here waits
// for whoever reads it: when too much waits to be read, lines are dropped and counted
// in the log itself.
//
//   log::info("listening on {}", address);
#pragma once

#include <fmt/core.h>

#include <chrono>
#include <string_view>

namespace sluice::log {

enum class Level { debug, info, warn, error };

void set_level(Level level);
void write(Level level, std::string_view line);

// Whether all lines so far are out, waiting no longer than `limit`. A program that
// ends by exit() or by returning from main does this by itself.
bool flush(std::chrono::milliseconds limit = std::chrono::milliseconds(500));

template <class... Args>
void debug(fmt::format_string<Args...> f, Args&&... args) {
  write(Level::debug, fmt::format(f, std::forward<Args>(args)...));
}
template <class... Args>
void info(fmt::format_string<Args...> f, Args&&... args) {
  write(Level::info, fmt::format(f, std::forward<Args>(args)...));
}
template <class... Args>
void warn(fmt::format_string<Args...> f, Args&&... args) {
  write(Level::warn, fmt::format(f, std::forward<Args>(args)...));
}
template <class... Args>
void error(fmt::format_string<Args...> f, Args&&... args) {
  write(Level::error, fmt::format(f, std::forward<Args>(args)...));
}

}  // namespace sluice::log

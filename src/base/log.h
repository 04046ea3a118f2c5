// The program's log: one line per event on stderr, level first. Nothing here waits
// for its reader: when too much waits to be read, lines are dropped and counted
// in the log itself.
//
//   log::info("listening on {}", address);
//
// Text from outside may be logged as it is: control characters are escaped, lines after the
// first are marked, and what is longer than 8 KB is cut.
#pragma once

#include <fmt/core.h>

#include <chrono>
#include <string_view>

namespace sluice::log {

enum class Level { debug, info, warn, error };

void set_level(Level level);
void write(Level level, std::string_view line);

// Returns whether all lines so far are out, waiting no longer than `limit`. A program that
// ends by exit() or by returning from main does this by itself.
bool flush(std::chrono::milliseconds limit = std::chrono::milliseconds(500));

// From here on a crash (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) waits up to 200 ms for
// the lines so far; then it goes on as it would have. The thread that writes them is still
// alive then, so that a handler need not touch the queue, which the crash may have caught
// half changed. Lost are the lines of a crash in the log itself, of one that holds the
// allocator's lock, of an overflown stack, and of SIGKILL.
void flush_on_crash();

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

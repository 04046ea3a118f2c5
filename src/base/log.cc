#include "base/log.h"

#include <poll.h>
#include <spdlog/details/os.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "base/line_writer.h"
#include "base/printable.h"

namespace sluice::log {

namespace {

constexpr const char* kPattern = "%Y-%m-%d %H:%M:%S.%e %^%l%$ %v";

spdlog::level::level_enum of(Level level) {
  switch (level) {
    case Level::debug: return spdlog::level::debug;
    case Level::info: return spdlog::level::info;
    case Level::warn: return spdlog::level::warn;
    case Level::error: return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::string_view ink(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::debug: return "\033[36m";
    case spdlog::level::info: return "\033[32m";
    case spdlog::level::warn: return "\033[33m\033[1m";
    default: return "\033[31m\033[1m";
  }
}

// The text may come from outside: it must not look like another event, control a terminal or fill
// the log by itself. Continuation lines are marked as such.
std::string one_event(std::string_view text) {
  constexpr std::size_t kMaxLineBytes = 8 << 10;
  const bool is_cut = text.size() > kMaxLineBytes;
  if (is_cut) {
    auto end = kMaxLineBytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    text = text.substr(0, end);
  }
  std::string out;
  while (true) {
    const auto end = text.find('\n');
    out += printable(text.substr(0, end));
    if (end == text.npos) break;
    out += "\n  | ";
    text.remove_prefix(end + 1);
  }
  return is_cut ? out + "..." : out;
}

// Lines on stderr that are never waited for.
class StderrSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  StderrSink() : writer_(STDERR_FILENO, [](std::uint64_t n) { return dropped(n); }) {}

  bool is_drained() const noexcept { return writer_.is_drained(); }
  bool flush_within(std::chrono::milliseconds limit) { return writer_.flush(limit); }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    const std::string_view line(text.data(), text.size());
    const auto from = message.color_range_start, to = message.color_range_end;
    if (!coloured_ || to <= from) return writer_.add(std::string(line));
    writer_.add(fmt::format("{}{}{}\033[0m{}", line.substr(0, from), ink(message.level),
                            line.substr(from, to - from), line.substr(to)));
  }
  void flush_() override {}

  static std::string dropped(std::uint64_t n) {
    spdlog::memory_buf_t text;
    const auto words = fmt::format("{} messages dropped here: nobody read them", n);
    spdlog::pattern_formatter(kPattern).format({"sluice", spdlog::level::warn, words}, text);
    return {text.data(), text.size()};
  }

  const bool coloured_ =
      spdlog::details::os::in_terminal(stderr) && spdlog::details::os::is_color_terminal();
  LineWriter writer_;
};

constexpr std::array kCrashes{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

struct Log {
  std::shared_ptr<StderrSink> sink = std::make_shared<StderrSink>();
  spdlog::logger logger{"sluice", sink};
  std::array<struct sigaction, kCrashes.size()> before_us{};  // what a crash did without us
};

// Never destroyed: the last code to run may still log.
Log& instance() {
  static Log& log = []() -> Log& {
    auto& made = *new Log;
    made.logger.set_pattern(kPattern);
    std::atexit([] { flush(); });
    return made;
  }();
  return log;
}

// Only what a handler may do: atomic loads, poll, sigaction, raise.
void on_crash(int signal, siginfo_t* info, void*) {
  constexpr int kTries = 20, kPause_ms = 10;
  const int kept = errno;
  auto& log = instance();  // made before this was set up
  for (int i = 0; i < kTries && !log.sink->is_drained(); ++i) ::poll(nullptr, 0, kPause_ms);
  const auto at = std::ranges::find(kCrashes, signal) - kCrashes.begin();
  ::sigaction(signal, &log.before_us[static_cast<std::size_t>(at)], nullptr);
  // An instruction fails again once we return; a signal that was sent does not.
  if (info->si_code <= 0) ::raise(signal);
  errno = kept;
}

}  // namespace

void flush_on_crash() {
  auto& log = instance();
  struct sigaction action {};
  action.sa_sigaction = on_crash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kCrashes.size(); ++i)
    ::sigaction(kCrashes[i], &action, &log.before_us[i]);
}

void set_level(Level level) { instance().logger.set_level(of(level)); }

void write(Level level, std::string_view line) {
  auto& logger = instance().logger;
  if (logger.should_log(of(level))) logger.log(of(level), one_event(line));
}

bool flush(std::chrono::milliseconds limit) { return instance().sink->flush_within(limit); }

}  // namespace sluice::log

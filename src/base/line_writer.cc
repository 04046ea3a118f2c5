#include "base/line_writer.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <string_view>
#include <thread>
#include <utility>

#include "base/mutex.h"

namespace sluice {

namespace {

// A descriptor that cannot be written at all loses the line.
void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const auto n = ::write(fd, text.data(), text.size());
    if (n > 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      pollfd writable{fd, POLLOUT, 0};
      ::poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

}  // namespace

struct LineWriter::State {
  State(int to, Dropped words, std::size_t limit)
      : fd(to), dropped_line(std::move(words)), max_lines(limit) {}

  const int fd;
  const Dropped dropped_line;
  const std::size_t max_lines;

  Mutex mutex;
  std::condition_variable_any changed;
  std::deque<std::string> lines GUARDED_BY(mutex);
  std::uint64_t dropped GUARDED_BY(mutex) = 0;
  std::atomic<std::uint64_t> added = 0, written = 0;  // changed under the mutex
  bool started GUARDED_BY(mutex) = false, stop GUARDED_BY(mutex) = false;

  void push(std::string line) REQUIRES(mutex) {
    lines.push_back(std::move(line));
    ++added;
  }

  void own_up() REQUIRES(mutex) {
    if (dropped > 0) push(dropped_line(std::exchange(dropped, 0)));
  }

  // The next line; nothing when it is time to end.
  std::string next() {
    const Lock lock(mutex);
    changed.wait(mutex, [this]() REQUIRES(mutex) { return stop || !lines.empty(); });
    if (lines.empty()) return {};
    auto line = std::move(lines.front());
    lines.pop_front();
    if (lines.empty()) own_up();
    return line;
  }

  void run() {
    for (auto line = next(); !line.empty(); line = next()) {
      write_all(fd, line);
      const Lock lock(mutex);
      ++written;
      changed.notify_all();
    }
  }
};

LineWriter::LineWriter(int fd, Dropped dropped, std::size_t max_lines)
    : state_(std::make_shared<State>(fd, std::move(dropped), max_lines)) {}

LineWriter::~LineWriter() {
  flush(std::chrono::milliseconds(500));
  const Lock lock(state_->mutex);
  state_->stop = true;
  state_->lines.clear();
  state_->changed.notify_all();
}

void LineWriter::add(std::string line) {
  bool start = false;
  {
    const Lock lock(state_->mutex);
    if (state_->lines.size() >= state_->max_lines) {
      ++state_->dropped;
      return;
    }
    state_->own_up();
    state_->push(std::move(line));
    start = !std::exchange(state_->started, true);
    state_->changed.notify_all();
  }
  if (!start) return;
  // Signals are for the threads that expect them; a reader that has gone is no end.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([state = state_] { state->run(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

bool LineWriter::is_drained() const noexcept { return state_->written >= state_->added; }

bool LineWriter::flush(std::chrono::milliseconds limit) {
  const Lock lock(state_->mutex);
  const std::uint64_t target = state_->added;
  return state_->changed.wait_for(
      state_->mutex, limit, [&]() REQUIRES(state_->mutex) { return state_->written >= target; });
}

}  // namespace sluice

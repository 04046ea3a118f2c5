// Writes lines to a file descriptor whose other end may not read them: a pipe that
// is full, a stopped terminal. add() never waits.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace sluice {

// Thread-safe. A thread of its own does the writing, from the first line on.
class LineWriter {
 public:
  // `dropped` words how many lines were lost, as a line; it stands where they would
  // have stood. At most `max_lines` lines wait, those after them are lost.
  using Dropped = std::function<std::string(std::uint64_t lines)>;
  LineWriter(int fd, Dropped dropped, std::size_t max_lines = 1000);
  // Writes what waits, but no longer than half a second. A thread that is stuck in
  // write() is left behind; `fd` must stay open for it.
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  void add(std::string line);  // with its newline

  // Returns whether all that was added is written. A signal handler may ask.
  bool is_drained() const noexcept;

  // Returns whether all that was added before is written, waiting no longer than `limit`.
  bool flush(std::chrono::milliseconds limit);

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread, which may outlive us
};

}  // namespace sluice

// Runs calls for one device in the order in which they were submitted.
//
//   Executor executor({.max_waiting = 256});
//   auto ticket = executor.submit({.run = [&] { encode(batch); },
//                                  .done = [&](std::exception_ptr error) { answer(error); },
//                                  .deadline = Steady::now() + 200ms});
//   if (!ticket) return busy();
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/error.h"

namespace sluice::compute {

struct ExecutorOptions {
  std::size_t threads = 1;         // calls that run at a time
  std::size_t max_waiting = 1024;  // calls that wait; those after them are refused
};

struct ExecutorCounts {
  std::size_t waiting = 0, running = 0;  // now
  std::size_t done = 0;                  // ran to their end, also to an error of theirs
  std::size_t refused = 0, cancelled = 0, expired = 0;
};

// What a call ends with whose deadline passed before its end.
class DeadlineExceeded : public Error {
 public:
  explicit DeadlineExceeded(SourceLocation where = SourceLocation::here())
      : Error(Code::exhausted, "the deadline passed", where) {}
};

// Thread-safe.
class Executor {
 public:
  struct Call {
    // Runs under a CancelScope: Workers and throw_if_cancelled() end it when it is cancelled or its
    // deadline passes.
    std::function<void()> run;
    // Called once, on a thread of the executor: null, or what `run` threw; Cancelled or
    // DeadlineExceeded, at once while the call waits. Must not throw.
    std::function<void(std::exception_ptr error)> done;
    Instant deadline = Instant::max();
  };

  class Ticket {
   public:
    // Returns at once; `done` is called anyway. No effect after that.
    void cancel() const;

   private:
    friend class Executor;
    std::weak_ptr<struct ExecutorJob> job_;
    std::weak_ptr<struct ExecutorState> state_;
  };

  explicit Executor(const ExecutorOptions& options = {});
  // Cancels all calls and waits until the last `done` returned.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // None if too many calls wait: nothing of `call` is kept or called then. Never waits.
  std::optional<Ticket> submit(Call call);
  ExecutorCounts counts() const;

 private:
  std::shared_ptr<struct ExecutorState> state_;
};

}  // namespace sluice::compute

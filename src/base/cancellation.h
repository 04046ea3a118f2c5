// Cancels work whose result is no longer needed.
//
//   const CancelScope scope(token);   // on the thread that does the work
//   ...
//   throw_if_cancelled();             // in its loops, every few milliseconds
//
// Without a scope nothing is ever cancelled, and asking costs a load.
#pragma once

#include <stop_token>

#include "base/error.h"

namespace sluice {

class Cancelled : public Error {
 public:
  explicit Cancelled(SourceLocation where = SourceLocation::here())
      : Error(Code::exhausted, "the calculation was cancelled", where) {}
};

namespace detail {
extern constinit thread_local const std::stop_token* cancel_token;
}

// The token of this thread's scope; null without one. compute::Workers passes it on to the
// threads that help.
inline const std::stop_token* cancel_token() noexcept { return detail::cancel_token; }

// Until its end, throw_if_cancelled() of this thread asks `token`, which must outlive it.
class CancelScope {
 public:
  explicit CancelScope(const std::stop_token* token) noexcept : before_(detail::cancel_token) {
    detail::cancel_token = token;
  }
  explicit CancelScope(const std::stop_token& token) noexcept : CancelScope(&token) {}
  ~CancelScope() { detail::cancel_token = before_; }
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;

 private:
  const std::stop_token* before_;
};

inline bool is_cancelled() noexcept {
  const std::stop_token* token = detail::cancel_token;
  return token != nullptr && token->stop_requested();
}

inline void throw_if_cancelled() {
  if (is_cancelled()) throw Cancelled();
}

}  // namespace sluice

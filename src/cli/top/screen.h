// Takes over the terminal for a full-screen view and restores it: at the
// end of the scope, on Ctrl-C and SIGTERM, and when the program crashes.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace sluice::cli {

// One at a time per process.
class Screen {
 public:
  // Alternate screen, no echo, no cursor. What is written to stderr meanwhile is
  // kept back, and shown when the view ends by an exception. Throws unavailable
  // when stdin or stdout is no terminal.
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Replaces what is shown, in one write. `frame` as render() gives it.
  void show(std::string_view frame) const;

  struct Input {
    std::string typed;
    bool resized = false;
    bool end = false;  // SIGINT, SIGTERM, SIGHUP, or the terminal is gone
  };
  // Waits for any of these or wake(), at most `seconds`.
  Input wait(double seconds) const;

  // From any thread.
  void wake() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::cli

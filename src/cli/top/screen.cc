#include "cli/top/screen.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <exception>
#include <vector>

#include "base/error.h"

namespace sluice::cli {

namespace {

constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[2J";
constexpr std::string_view kLeave = "\x1b[0m\x1b[?25h\x1b[?1049l";
constexpr std::array kEnding{SIGINT, SIGTERM, SIGHUP};
constexpr std::array kCrashing{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

// A signal handler can reach nothing but statics: the pipe that wakes the loop,
// and the terminal's settings for a handler that must restore them.
std::atomic<int> wake_fd{-1};
termios terminal_before{};

void notify(char what) noexcept {
  const int saved = errno;
  if (const int fd = wake_fd.load(); fd >= 0) (void)!write(fd, &what, 1);
  errno = saved;
}

void on_resize(int) { notify('r'); }
void on_end(int) { notify('e'); }

void restore_terminal() noexcept {
  (void)!write(STDOUT_FILENO, kLeave.data(), kLeave.size());
  tcsetattr(STDIN_FILENO, TCSANOW, &terminal_before);
}

// The handler is gone after its first call (SA_RESETHAND), so the signal raised
// again ends the program as it would have.
void on_crash(int signal) {
  restore_terminal();
  raise(signal);
}

void write_all(std::string_view text) {
  while (!text.empty()) {
    const auto n = write(STDOUT_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;  // the terminal is gone; wait() will say so
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

struct Handled {
  int signal;
  struct sigaction old;
};

}  // namespace

struct Screen::Impl {
  std::array<int, 2> pipe{-1, -1};
  int real_stderr = -1, kept_stderr = -1;
  std::vector<Handled> handled;

  void handle(int signal, void (*handler)(int), int flags) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = flags;
    handled.push_back({signal, {}});
    sigaction(signal, &action, &handled.back().old);
  }

  void keep_stderr() {
    kept_stderr = memfd_create("sluice-top-stderr", MFD_CLOEXEC);
    real_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (kept_stderr >= 0 && real_stderr >= 0) dup2(kept_stderr, STDERR_FILENO);
  }

  void give_stderr_back() {
    if (kept_stderr < 0 || real_stderr < 0) return;
    dup2(real_stderr, STDERR_FILENO);
    lseek(kept_stderr, 0, SEEK_SET);
    std::array<char, 4096> text;
    if (std::uncaught_exceptions() > 0)
      for (ssize_t n; (n = read(kept_stderr, text.data(), text.size())) > 0;)
        (void)!write(STDERR_FILENO, text.data(), static_cast<std::size_t>(n));
    close(kept_stderr);
    close(real_stderr);
  }
};

Screen::Screen() : impl_(std::make_unique<Impl>()) {
  if (isatty(STDOUT_FILENO) != 1 || tcgetattr(STDIN_FILENO, &terminal_before) != 0)
    throw Error(Code::unavailable, "no terminal to draw on; use --once or --json");
  if (pipe2(impl_->pipe.data(), O_CLOEXEC | O_NONBLOCK) != 0)
    throw Error(Code::internal, "no pipe");
  wake_fd = impl_->pipe[1];
  impl_->handle(SIGWINCH, on_resize, SA_RESTART);
  for (const int signal : kEnding) impl_->handle(signal, on_end, SA_RESTART);
  for (const int signal : kCrashing)
    impl_->handle(signal, on_crash, static_cast<int>(SA_RESETHAND | SA_NODEFER));

  termios raw = terminal_before;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VSUSP] = _POSIX_VDISABLE;  // stopped in here, the shell would get a broken terminal
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  impl_->keep_stderr();
  write_all(kEnter);
}

Screen::~Screen() {
  restore_terminal();
  for (const auto& h : impl_->handled) sigaction(h.signal, &h.old, nullptr);
  wake_fd = -1;
  impl_->give_stderr_back();
  for (const int fd : impl_->pipe) close(fd);
}

void Screen::show(std::string_view frame) const {
  std::string out = "\x1b[?2026h\x1b[H";  // drawn at once where the terminal can
  while (!frame.empty()) {
    const auto end = frame.find('\n');
    out += frame.substr(0, end);
    out += "\x1b[K";
    frame.remove_prefix(end == frame.npos ? frame.size() : end + 1);
    if (!frame.empty()) out += "\r\n";
  }
  write_all(out + "\x1b[J\x1b[?2026l");
}

Screen::Input Screen::wait(double seconds) const {
  std::array<pollfd, 2> fds{{{STDIN_FILENO, POLLIN, 0}, {impl_->pipe[0], POLLIN, 0}}};
  (void)poll(fds.data(), fds.size(), static_cast<int>(seconds * 1000));
  Input input;
  std::array<char, 256> text;
  if ((fds[0].revents & POLLIN) != 0) {
    const auto n = read(STDIN_FILENO, text.data(), text.size());
    if (n > 0) input.typed.assign(text.data(), static_cast<std::size_t>(n));
    if (n == 0) input.end = true;
  }
  if ((fds[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) input.end = true;
  for (ssize_t n; (n = read(impl_->pipe[0], text.data(), text.size())) > 0;)
    for (const char c : std::string_view(text.data(), static_cast<std::size_t>(n))) {
      input.resized |= c == 'r';
      input.end |= c == 'e';
    }
  return input;
}

void Screen::wake() const noexcept { notify('w'); }

}  // namespace sluice::cli

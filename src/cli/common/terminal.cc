#include "cli/common/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <string>

namespace sluice::cli {

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool speaks_utf8() {
  std::string locale;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (locale.empty()) locale = variable(name);
  std::ranges::transform(locale, locale.begin(), [](unsigned char c) { return std::tolower(c); });
  return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
}

constexpr int kMinWidth = 20, kMaxWidth = 10'000;

// The width of COLUMNS; 80 where that is unset or invalid.
int columns_of_environment() {
  const auto text = variable("COLUMNS");
  int width = 0;
  const auto* end = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data(), end, width);
  const bool usable =
      failed == std::errc() && stop == end && width >= kMinWidth && width <= kMaxWidth;
  return usable ? width : Terminal{}.width;
}

}  // namespace

Terminal terminal_of(int fd) {
  Terminal terminal;
  terminal.is_terminal = isatty(fd) == 1;
  terminal.pen.utf8 = speaks_utf8();
  const auto term = variable("TERM");
  terminal.pen.colour = terminal.is_terminal && variable("NO_COLOR").empty() && term != "dumb";
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
    terminal.width = size.ws_col;
    terminal.height = size.ws_row;
  } else if (!terminal.is_terminal) {
    terminal.width = columns_of_environment();
  }
  return terminal;
}

}  // namespace sluice::cli

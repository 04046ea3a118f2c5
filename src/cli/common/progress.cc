#include "cli/common/progress.h"

#include <unistd.h>

#include <iostream>

namespace sluice::cli {

Progress::Progress(std::ostream& err)
    : err_(err),
      terminal_(terminal_of(STDERR_FILENO)),
      visible_(terminal_.is_terminal && &err == &std::cerr) {}

Progress::~Progress() {
  if (visible_) err_ << "\r\x1b[K" << std::flush;
}

void Progress::show(double share, std::string_view what) {
  if (!visible_) return;
  const auto text = bar(share, 20, terminal_.pen, Ink::accent) + " " + std::string(what);
  err_ << "\r\x1b[K" << left(text, terminal_.width - 1, terminal_.pen) << std::flush;
}

}  // namespace sluice::cli

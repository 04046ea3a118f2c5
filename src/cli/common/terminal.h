// The capabilities of the terminal of this process, queried once. cli/ only: it reads the
// environment.
#pragma once

#include "cli/common/draw.h"

namespace sluice::cli {

struct Terminal {
  bool is_terminal = false;  // a person is looking, not a pipe
  Pen pen;                   // colours only for a person, and never against NO_COLOR
  int width = 80, height = 24;
};

// The terminal of file descriptor `fd` (1 or 2). LC_ALL, LC_CTYPE and LANG decide about UTF-8,
// NO_COLOR and TERM=dumb against colours, COLUMNS about the width of what is no
// terminal.
Terminal terminal_of(int fd);

}  // namespace sluice::cli

// Lines for people: headings, labelled rows and wrapped text of one width. Titles and texts may
// come from files: they are made printable. Labels, marks and lines are not.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "cli/common/terminal.h"

namespace sluice::cli {

// `text` broken at spaces into lines of at most `width` columns; a longer word
// keeps its own line. At least one line. What glued() joined stays on one line.
std::vector<std::string> wrapped(std::string_view text, int width);
std::string glued(std::string text);

class Report {
 public:
  Report(std::ostream& out, const Terminal& terminal);

  Pen pen() const noexcept { return pen_; }
  int width() const noexcept { return width_; }

  // "GPU  NVIDIA H200", with an empty line before all but the first.
  void heading(std::string_view kind, std::string_view title);
  // "  Memory        139.8 GiB", continued under its beginning. Nothing when empty.
  void row(std::string_view label, std::string_view text);
  // Wrapped behind `mark`, which may be painted and takes `columns_of_mark` columns.
  void item(std::string_view mark, int columns_of_mark, std::string_view text,
            Ink ink = Ink::plain);
  void line(std::string_view text);

 private:
  std::ostream& out_;
  Pen pen_;
  int width_;
  bool first_ = true;
};

// The terminal behind `out` when that is this process's standard output; a plain
// 80-column page otherwise.
Terminal terminal_behind(const std::ostream& out);

}  // namespace sluice::cli

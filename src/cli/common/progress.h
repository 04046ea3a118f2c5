// A progress line on stderr; silent without a terminal.
#pragma once

#include <iosfwd>
#include <string_view>

#include "cli/common/terminal.h"

namespace sluice::cli {

class Progress {
 public:
  explicit Progress(std::ostream& err);
  ~Progress();  // removes the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(double share, std::string_view what);

 private:
  std::ostream& err_;
  Terminal terminal_;
  bool visible_;
};

}  // namespace sluice::cli

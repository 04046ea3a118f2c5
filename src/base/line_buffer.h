// Puts a stream of bytes back into lines.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

class LineBuffer {
 public:
  void add(std::string_view bytes) { bytes_.append(bytes); }

  // The next whole line without its newline.
  std::optional<std::string> next() {
    const auto end = bytes_.find('\n', start_);
    if (end == std::string::npos) {
      bytes_.erase(0, start_);
      start_ = 0;
      return std::nullopt;
    }
    auto line = bytes_.substr(start_, end - start_);
    start_ = end + 1;
    return line;
  }

 private:
  std::string bytes_;
  std::size_t start_ = 0;
};

}  // namespace sluice

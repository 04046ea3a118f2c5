// Size agreement between the fields of a request. Every list whose length must fit that of
// another goes through here, so that none is used before it is known to fit.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice::market {

// A size that several fields have in common: the assets, the bars, the options. The first field
// that has it sets its size; all others must agree.
class Dimension {
 public:
  explicit Dimension(std::string_view unit) : unit_(unit) {}  // must outlive this: "assets"

  // Throws invalid_argument, naming both sizes: "'mean' has 8 assets; 'returns' has 2".
  void agree(std::string_view field, std::size_t size);

  bool known() const noexcept { return !field_.empty(); }
  std::size_t size() const noexcept { return size_; }

 private:
  std::string_view unit_;
  std::string field_;  // that set the size
  std::size_t size_ = 0;
};

}  // namespace sluice::market

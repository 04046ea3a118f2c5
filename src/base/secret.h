// A string that does not print itself: no stream operator, no JSON conversion,
// and masked() for the places that must show something.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace sluice {

class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string value) : value_(std::move(value)) {}

  bool empty() const noexcept { return value_.empty(); }
  std::string_view masked() const noexcept { return empty() ? "" : "***"; }

  // The value itself, for the one place that compares or sends it.
  const std::string& reveal() const noexcept { return value_; }

  // Takes the same time whatever the first differing byte.
  bool equals(std::string_view other) const noexcept {
    unsigned difference = value_.size() != other.size();
    for (std::size_t i = 0; i < other.size(); ++i)
      difference |= static_cast<unsigned char>(other[i]) ^
                    static_cast<unsigned char>(value_.empty() ? 0 : value_[i % value_.size()]);
    return difference == 0;
  }

 private:
  std::string value_;
};

}  // namespace sluice

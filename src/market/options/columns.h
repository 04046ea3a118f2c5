// Batches of options as columns. A column is an array, or one value for all options.
#pragma once

#include <span>

#include "compute/operation.h"

namespace sluice::market {

enum class OptionKind { call, put };

template <class T>
class Column {
 public:
  Column(T value) : value_(value) {}                      // NOLINT: a number is a column
  Column(std::span<const T> values) : values_(values) {}  // NOLINT: and so is an array
  template <class A>
  requires std::convertible_to<const A&, std::span<const T>> Column(const A& values)
      : values_(values) {}  // NOLINT

  bool is_scalar() const noexcept { return values_.data() == nullptr; }
  std::size_t size() const noexcept { return values_.size(); }
  T operator[](std::size_t i) const { return is_scalar() ? value_ : values_[i]; }

  // Refers to this column, which must outlive the call.
  compute::Operand operand() const {
    if (is_scalar())
      return {.data = const_cast<T*>(&value_), .item_bytes = 0, .shared_bytes = sizeof(T)};
    return {.data = const_cast<T*>(values_.data()), .item_bytes = sizeof(T)};
  }

 private:
  std::span<const T> values_{};
  T value_{};
};

// Continuous compounding; rates, yield and volatility per year, t in years.
template <class T>
struct OptionColumns {
  Column<T> spot, strike, t, rate, div_yield, vol;
};

// The call over these columns. Throws invalid_argument when an array's length is not
// `items`.
template <class T>
compute::Call option_call(const OptionColumns<T>& columns, std::size_t items);

}  // namespace sluice::market

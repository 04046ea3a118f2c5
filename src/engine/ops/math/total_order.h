// The order in which TopK and Unique sort.
#pragma once

#include <string>
#include <type_traits>

#include "engine/ops/wide.h"

namespace sluice::engine {

// A total order: NaN is the largest value and equal to itself.
template <class T>
bool below(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, std::string> || std::is_integral_v<T>) {
    return a < b;
  } else {
    const auto x = static_cast<Wide<T>>(a), y = static_cast<Wide<T>>(b);
    return x < y || (y != y && x == x);
  }
}

}  // namespace sluice::engine

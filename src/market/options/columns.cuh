// Option columns in a kernel.
#pragma once

#include "compute/operation.h"

namespace sluice::market {

// An array, or one value for all options (step 0).
template <class T>
struct DeviceColumn {
  const T* data;
  unsigned step;
  __device__ T operator[](std::size_t i) const { return __ldg(data + i * step); }
};

template <class T>
struct DeviceOptions {
  DeviceColumn<T> spot, strike, t, rate, div_yield, vol;
};

template <class T>
DeviceColumn<T> device_column(const compute::Call& call, std::size_t i) {
  return {call.input<T>(i), call.in[i].item_bytes != 0 ? 1u : 0u};
}

// The columns from `first` on, in the order of OptionColumns; vol only where there is one.
template <class T>
DeviceOptions<T> device_options(const compute::Call& call, std::size_t first = 0) {
  const auto at = [&](std::size_t i) { return device_column<T>(call, first + i); };
  const bool has_vol = call.in.size() > first + 5;
  return {at(0), at(1), at(2), at(3), at(4), has_vol ? at(5) : DeviceColumn<T>{nullptr, 0}};
}

}  // namespace sluice::market

// Reads NVML's lists of unknown length.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "device/nvml/nvml.h"

namespace sluice::device {

inline constexpr int kListTries = 8;  // a list may grow after the call for its length

// Repeats call(&count, items) until the items fit.
template <class Item, class Call>
Answer<std::vector<Item>> list_items(Call call) {
  std::vector<Item> items;
  for (int attempt = 0; attempt < kListTries; ++attempt) {
    auto count = static_cast<std::uint32_t>(items.size());
    const nvml::Return code = call(&count, items.empty() ? nullptr : items.data());
    if (code == nvml::Return::success) {
      items.resize(std::min<std::size_t>(count, items.size()));
      return {code, std::move(items)};
    }
    if (code != nvml::Return::insufficient_size || count == 0) return {code, {}};
    items.resize(std::max<std::size_t>(count, items.size() + 1));
  }
  return {nvml::Return::insufficient_size, {}};
}

}  // namespace sluice::device

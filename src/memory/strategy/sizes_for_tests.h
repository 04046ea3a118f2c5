#pragma once

#include <cstddef>

namespace sluice::memory {

inline constexpr std::size_t kMiB = 1 << 20;

}  // namespace sluice::memory

#include "kernels/quantized/weights.h"

#include <algorithm>

namespace sluice::kernels::cuda {

Tensor pack_weight_rows(const std::vector<std::uint8_t>& columns, std::int64_t n, std::int64_t k,
                        std::int64_t row) {
  const Tensor packed(DType::u8, {(n + 15) / 16 * 16, row});
  std::uint8_t* const to = packed.values<std::uint8_t>().data();
  std::fill_n(to, packed.bytes(), std::uint8_t{0});
  for (std::int64_t i = 0; i < n; ++i) std::copy_n(columns.begin() + i * k, k, to + i * row);
  return packed;
}

std::vector<std::int32_t> zero_point_compensation(const std::vector<std::uint8_t>& columns,
                                                  std::int64_t n, std::int64_t k, int zero) {
  std::vector<std::int32_t> compensation(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    std::int32_t sum = 0;
    for (std::int64_t j = 0; j < k; ++j)
      sum += static_cast<std::int8_t>(columns[static_cast<std::size_t>(i * k + j)]);
    compensation[static_cast<std::size_t>(i)] = sum * zero;
  }
  return compensation;
}

bool exceeds_float_precision(const std::vector<std::int32_t>& compensation) {
  constexpr std::int32_t kLarge = 1 << 22;
  return std::any_of(compensation.begin(), compensation.end(),
                     [](std::int32_t x) { return x > kLarge || x < -kLarge; });
}

}  // namespace sluice::kernels::cuda

// Pooling of packed sequences: one vector for each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "kernels/common/launch_args.h"
#include "kernels/common/real_type.h"

namespace sluice::kernels {

enum class TokenPooling { sum, mean, first, last };

std::string_view to_string(TokenPooling pooling);
std::optional<TokenPooling> token_pooling_named(std::string_view name);

namespace cpu {

// Pools the `tokens` rows of `n` elements at `x`, in order, into `out`: the same bits wherever the
// sequence lies. No tokens: zeros. `normalize`: divides by the L2 norm.
void pool_tokens(TokenPooling pooling, bool normalize, const float* x, std::size_t tokens,
                 std::size_t n, float* out);

// Divides by the L2 norm; a row of zeros stays one.
void normalize_row(float* row, std::size_t n);

}  // namespace cpu

namespace cuda {

// As on the CPU, of every live sequence.
struct PoolTokensCall {
  TokenPooling pooling;
  bool normalize;
  const void* x;  // [tokens, n]
  const std::int32_t* cu_seqlens;
  float* out;  // [sequences, n]
  int tokens, sequences, n;
};
void pool_tokens(RealType type, const PoolTokensCall& call, const LaunchArgs& args);

}  // namespace cuda
}  // namespace sluice::kernels

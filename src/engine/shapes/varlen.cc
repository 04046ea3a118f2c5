#include "engine/shapes/varlen.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/error.h"

namespace sluice::engine {
namespace {

// The number of tokens is rounded up to 1/32 of the padded size. This wastes about 2 % of the work,
// but limits the number of programs for arbitrary lengths.
constexpr std::int64_t kTokenBuckets = 32;

// Whether each position holds a token; none if there are values other than 0 and 1.
template <class T>
std::optional<std::vector<bool>> tokens_in(const Tensor& mask) {
  std::vector<bool> is;
  is.reserve(static_cast<std::size_t>(mask.size()));
  for (const T& number : mask.values<T>()) {
    if (number != T(0) && number != T(1)) return std::nullopt;
    is.push_back(number != T(0));
  }
  return is;
}

std::optional<std::vector<bool>> tokens_of(const Tensor& mask) {
  switch (mask.dtype()) {
    case DType::i64: return tokens_in<std::int64_t>(mask);
    case DType::i32: return tokens_in<std::int32_t>(mask);
    case DType::boolean: return tokens_in<bool>(mask);
    case DType::f32: return tokens_in<float>(mask);
    default: throw Error(Code::internal, "a mask of this type is not read");
  }
}

// Rounds the number of tokens up to the next bucket.
std::int64_t rounded_up(std::int64_t tokens, std::int64_t positions) {
  const std::int64_t step = (positions + kTokenBuckets - 1) / kTokenBuckets;
  return std::min(positions, std::max(step, (tokens + step - 1) / step * step));
}

}  // namespace

std::array<TensorType, VarlenBatch::kInputs> varlen_types(std::int64_t batch, std::int64_t length,
                                                          std::int64_t tokens) {
  return {TensorType{DType::i32, {1, tokens}},
          {DType::i32, {1, tokens}},
          {DType::i32, {batch, length}},
          {DType::i32, {batch + 1}}};
}

bool is_mask_type(DType type) {
  return type == DType::i64 || type == DType::i32 || type == DType::boolean || type == DType::f32;
}

std::optional<VarlenBatch> pack_varlen(const Tensor& mask, bool first) {
  if (mask.rank() != 2 || mask.size() < kMinMaskSize || !is_mask_type(mask.dtype()) ||
      mask.size() > std::numeric_limits<std::int32_t>::max())
    return std::nullopt;
  const auto is = tokens_of(mask);
  if (!is) throw Error(Code::unavailable, "the mask has other numbers than 0 and 1");
  const std::int64_t batch = mask.shape()[0], length = mask.shape()[1];
  for (std::size_t i = 0; first && i < is->size(); i += static_cast<std::size_t>(length))
    if (!(*is)[i])
      throw Error(Code::unavailable,
                  "a sequence has no token at its first position, which the model reads");
  const std::int64_t tokens = std::ranges::count(*is, true);
  if (tokens == mask.size()) return std::nullopt;
  VarlenBatch varlen{.inputs = {}, .tokens = rounded_up(tokens, mask.size())};
  if (varlen.tokens == mask.size())
    throw Error(Code::unavailable, "there is too little padding to save work");
  const auto types = varlen_types(batch, length, varlen.tokens);
  for (std::size_t i = 0; i < types.size(); ++i)
    varlen.inputs[i] = Tensor(types[i].dtype, types[i].shape);
  const auto input = [&](std::size_t i) { return varlen.inputs[i].values<std::int32_t>(); };
  const auto rows = input(0), positions = input(1), token_index = input(2), cu_seqlens = input(3);
  std::size_t token = 0;
  for (std::size_t i = 0; i < is->size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    if (at % length == 0)
      cu_seqlens[static_cast<std::size_t>(at / length)] = static_cast<std::int32_t>(token);
    token_index[i] = (*is)[i] ? static_cast<std::int32_t>(token)
                              : static_cast<std::int32_t>(varlen.inputs[0].size());
    if (!(*is)[i]) continue;
    rows[token] = static_cast<std::int32_t>(at);
    positions[token++] = static_cast<std::int32_t>(at % length);
  }
  cu_seqlens[static_cast<std::size_t>(batch)] = static_cast<std::int32_t>(token);
  const std::int32_t like = token > 0 ? rows[0] : 0;
  std::ranges::fill(rows.subspan(token), like);
  std::ranges::fill(positions.subspan(token), like % static_cast<std::int32_t>(length));
  return varlen;
}

std::string varlen_input_name(const std::string& mask, std::size_t index, bool first) {
  return mask + (first ? "/first, " : "/") + VarlenBatch::kNames[index];
}

std::optional<PaddingMask> mask_of_varlen(const Graph& special, std::size_t inputs) {
  if (special.inputs.size() != inputs + VarlenBatch::kInputs) return std::nullopt;
  const std::string& name = special[special.inputs[inputs]].name;
  for (std::size_t i = 0; i < inputs; ++i)
    for (const bool first : {false, true})
      if (name == varlen_input_name(special[special.inputs[i]].name, 0, first))
        return PaddingMask{i, first};
  return std::nullopt;
}

}  // namespace sluice::engine

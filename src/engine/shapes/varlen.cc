#include "engine/shapes/varlen.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/error.h"

namespace sluice::engine {
namespace {

// Numbers of tokens are multiples of the places' 32nd part: 2 % are computed in vain, and a
// server that sees any lengths compiles a few programs.
constexpr std::int64_t kSteps = 32;

// 1 where there is a token; none where there are other numbers than 0 and 1.
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

// How many are computed for so many; all: no fewer.
std::int64_t stepped(std::int64_t tokens, std::int64_t places) {
  const std::int64_t step = (places + kSteps - 1) / kSteps;
  return std::min(places, std::max(step, (tokens + step - 1) / step * step));
}

}  // namespace

std::array<TensorType, Packing::kParts> packing_types(std::int64_t batch, std::int64_t length,
                                                      std::int64_t tokens) {
  return {TensorType{DType::i32, {1, tokens}},
          {DType::i32, {1, tokens}},
          {DType::i32, {batch, length}},
          {DType::i32, {batch + 1}}};
}

bool is_mask_type(DType type) {
  return type == DType::i64 || type == DType::i32 || type == DType::boolean || type == DType::f32;
}

std::optional<Packing> pack(const Tensor& mask, bool first) {
  if (mask.rank() != 2 || mask.size() < kFewestPlaces || !is_mask_type(mask.dtype()) ||
      mask.size() > std::numeric_limits<std::int32_t>::max())
    return std::nullopt;
  const auto is = tokens_of(mask);
  if (!is) throw Error(Code::unavailable, "the mask has other numbers than 0 and 1");
  const std::int64_t batch = mask.shape()[0], length = mask.shape()[1];
  for (std::size_t i = 0; first && i < is->size(); i += static_cast<std::size_t>(length))
    if (!(*is)[i])
      throw Error(Code::unavailable,
                  "a sequence has no token at its first place, which the model looks at");
  Packing packing{.parts = {}, .tokens = stepped(std::ranges::count(*is, true), mask.size())};
  if (packing.tokens == mask.size()) return std::nullopt;
  const auto types = packing_types(batch, length, packing.tokens);
  for (std::size_t i = 0; i < types.size(); ++i)
    packing.parts[i] = Tensor(types[i].dtype, types[i].shape);
  const auto part = [&](std::size_t i) { return packing.parts[i].values<std::int32_t>(); };
  const auto rows = part(0), positions = part(1), places = part(2), offsets = part(3);
  std::size_t token = 0;
  for (std::size_t i = 0; i < is->size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    if (at % length == 0)
      offsets[static_cast<std::size_t>(at / length)] = static_cast<std::int32_t>(token);
    places[i] = static_cast<std::int32_t>((*is)[i] ? token : packing.parts[0].size());
    if (!(*is)[i]) continue;
    rows[token] = static_cast<std::int32_t>(at);
    positions[token++] = static_cast<std::int32_t>(at % length);
  }
  offsets[static_cast<std::size_t>(batch)] = static_cast<std::int32_t>(token);
  const std::int32_t like = token > 0 ? rows[0] : 0;
  std::ranges::fill(rows.subspan(token), like);
  std::ranges::fill(positions.subspan(token), like % static_cast<std::int32_t>(length));
  return packing;
}

std::string part_name(const std::string& mask, std::size_t part, bool first) {
  return mask + (first ? "/first, " : "/") + Packing::kNames[part];
}

std::optional<PaddingMask> mask_of_packed(const Graph& special, std::size_t inputs) {
  if (special.inputs.size() != inputs + Packing::kParts) return std::nullopt;
  const std::string& name = special[special.inputs[inputs]].name;
  for (std::size_t i = 0; i < inputs; ++i)
    for (const bool first : {false, true})
      if (name == part_name(special[special.inputs[i]].name, 0, first))
        return PaddingMask{i, first};
  return std::nullopt;
}

}  // namespace sluice::engine

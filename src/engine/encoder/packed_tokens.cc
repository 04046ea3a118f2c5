#include "engine/encoder/packed_tokens.h"

#include <algorithm>

#include "engine/encoder/packed_graph.h"

namespace sluice::engine {
namespace {

// The first value outside [0, limit), as an error.
std::string outside(std::span<const std::int32_t> values, std::int64_t limit, const char* what) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] < 0 || values[i] >= limit)
      return std::string(what) + " " + std::to_string(values[i]) + " at token " +
             std::to_string(i) + " is not in 0 to " + std::to_string(limit - 1);
  return "";
}

}  // namespace

std::string fault_of(const PackedTokens& tokens, std::size_t sequence, const PackedGraph& graph) {
  const std::int32_t begin = tokens.cu_seqlens[sequence], end = tokens.cu_seqlens[sequence + 1];
  if (begin < 0 || end < begin || static_cast<std::size_t>(end) > tokens.ids.size())
    return "cu_seqlens go from " + std::to_string(begin) + " to " + std::to_string(end) + " in " +
           std::to_string(tokens.ids.size()) + " tokens";
  if (begin == end) return "it has no tokens";
  const auto from = static_cast<std::size_t>(begin), count = static_cast<std::size_t>(end - begin);
  if (static_cast<std::int64_t>(count) > graph.max_length())
    return std::to_string(count) + " tokens; the model takes at most " +
           std::to_string(graph.max_length());
  const auto ids = tokens.ids.subspan(from, count);
  if (auto why = outside(ids, graph.vocabulary(), "token id"); !why.empty()) return why;
  if (const auto padding = graph.padding_id();
      padding && std::ranges::find(ids, *padding) != ids.end())
    return "token id " + std::to_string(*padding) + " is the model's padding";
  if (tokens.type_ids.empty()) return "";
  if (graph.takes_types() && graph.token_types() == 0)
    return "";  // any that the model computes with
  return outside(tokens.type_ids.subspan(from, count),
                 std::max<std::int64_t>(1, graph.token_types()), "token type");
}

}  // namespace sluice::engine

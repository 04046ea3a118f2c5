#include "engine/encoder/encoder_runner.h"

#include <algorithm>
#include <cmath>

namespace sluice::engine {

std::vector<SequenceError> place_rows(const PackedTokens& tokens, const PackedGraph& graph,
                                      std::span<const std::size_t> sequences, const float* rows,
                                      std::span<float> out) {
  const auto width = static_cast<std::size_t>(graph.width());
  std::vector<SequenceError> errors;
  for (const std::size_t sequence : sequences) {
    const std::size_t count = (graph.pooled() ? 1 : tokens.length(sequence)) * width;
    const std::size_t row =
        graph.pooled() ? sequence : static_cast<std::size_t>(tokens.cu_seqlens[sequence]);
    if (std::all_of(rows, rows + count, [](float x) { return std::isfinite(x); }))
      std::copy(rows, rows + count, out.data() + row * width);
    else
      errors.push_back({sequence, "its result is not finite"});
    rows += count;
  }
  return errors;
}

}  // namespace sluice::engine

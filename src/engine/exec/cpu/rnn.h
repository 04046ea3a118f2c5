// LSTM, GRU and RNN: sizes, and weights that lie as the gates want them, in groups of units.
#pragma once

#include <algorithm>
#include <vector>

#include "engine/exec/cpu/backend.h"
#include "kernels/gemm/packed_gemm.h"

namespace sluice::engine::cpu {

enum class Recurrent { rnn, gru, lstm };

struct RecurrentLayer {
  Recurrent kind;
  bool batch_first, reversed, late_reset, relu;
  std::int64_t steps, batch, input, hidden, directions;
  float clip;

  std::int64_t gates() const { return kind == Recurrent::rnn ? 1 : kind == Recurrent::gru ? 3 : 4; }
  // Units of a group: panels are full with whole groups, of common sizes.
  std::int64_t units() const {
    return std::min<std::int64_t>(kind == Recurrent::lstm ? 32 : 64, (hidden + 15) / 16 * 16);
  }
  std::int64_t groups() const { return (hidden + units() - 1) / units(); }
  std::int64_t padded() const { return groups() * units(); }
  std::int64_t columns() const { return gates() * padded(); }

  // Where a row lies among those of its tensor.
  std::int64_t in(std::int64_t time, std::int64_t s) const {
    return batch_first ? s * steps + time : time * batch + s;
  }
  std::int64_t out(std::int64_t time, std::int64_t direction, std::int64_t s) const {
    return batch_first ? in(time, s) * directions + direction
                       : (time * directions + direction) * batch + s;
  }
  std::int64_t state(std::int64_t direction, std::int64_t s) const {
    return batch_first ? s * directions + direction : direction * batch + s;
  }
};

// The state's part of some gates, panels of each group one after the other.
struct StatePart {
  std::int64_t gates;
  Tensor panels;
  Floats bias;  // by group, as sums have it
};

// The weights of one direction.
struct RecurrentWeights {
  Tensor panels;  // of the input
  Floats bias;
  std::vector<StatePart> parts;  // of a GRU update and reset, then the new value; else one
  Floats peepholes;              // input, output, forget; null: none
};
// Of a node with constant weights of the layer's sizes.
RecurrentWeights recurrent_weights(const RecurrentLayer& layer, std::int64_t direction,
                                   const Graph& graph, const Node& node, Context& context);

}  // namespace sluice::engine::cpu

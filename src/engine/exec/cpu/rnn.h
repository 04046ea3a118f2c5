// LSTM, GRU and RNN: layer sizes, and weights packed by gates in groups of units.
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
  // The units of a group, such that groups of common sizes fill panels.
  std::int64_t units() const {
    return std::min<std::int64_t>(kind == Recurrent::lstm ? 32 : 64, (hidden + 15) / 16 * 16);
  }
  std::int64_t groups() const { return (hidden + units() - 1) / units(); }
  std::int64_t padded() const { return groups() * units(); }
  std::int64_t columns() const { return gates() * padded(); }

  // Row indices of the input, output and state tensors.
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

// The recurrent weights of some gates, as panels group by group.
struct StateGates {
  std::int64_t gates;
  Tensor panels;
  Floats bias;  // by group, in the order of the sums
};

// The weights of one direction.
struct RecurrentWeights {
  Tensor panels;  // input weights
  Floats bias;
  std::vector<StateGates> parts;  // GRU: update and reset gates, then the candidate; else one
  Floats peepholes;               // input, output, forget; null: none
};
// Packs the weights of a node; they are constants of the layer's sizes.
RecurrentWeights recurrent_weights(const RecurrentLayer& layer, std::int64_t direction,
                                   const Graph& graph, const Node& node, Context& context);

}  // namespace sluice::engine::cpu

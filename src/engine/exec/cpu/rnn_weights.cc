#include "engine/exec/cpu/nodes.h"
#include "engine/exec/cpu/rnn.h"
#include "engine/ops/op.h"

namespace sluice::engine::cpu {
namespace {

// `count` gates from `first` on, of [gates * hidden, depth], as [depth, groups, gates, units],
// zero-padded. With `apart` each group is a matrix of `depth` rows of count * units values.
std::vector<float> by_group(const RecurrentLayer& l, const float* from, std::int64_t depth,
                            std::int64_t first, std::int64_t count, bool apart) {
  const std::int64_t units = l.units(), wide = count * units;
  std::vector<float> to(static_cast<std::size_t>(depth * wide * l.groups()));
  for (std::int64_t gate = 0; gate < count; ++gate)
    for (std::int64_t unit = 0; unit < l.hidden; ++unit) {
      const float* const row = from + ((first + gate) * l.hidden + unit) * depth;
      const std::int64_t group = unit / units, column = gate * units + unit % units;
      const std::int64_t step = apart ? wide : wide * l.groups();
      const std::int64_t begin = apart ? group * depth * wide : group * wide;
      for (std::int64_t k = 0; k < depth; ++k)
        to[static_cast<std::size_t>(begin + k * step + column)] = row[k];
    }
  return to;
}

StateGates state_part(const RecurrentLayer& l, std::int64_t first, std::int64_t count,
                      const Tensor& r, std::int64_t direction, Context& context) {
  const std::int64_t wide = count * l.units(), size = panel_values(l.hidden, wide);
  const std::string layout = "state " + std::to_string(direction) + " gates " +
                             std::to_string(first) + " and " + std::to_string(count) + " units " +
                             std::to_string(l.units());
  StateGates part{count, {}, packed_bias(wide * l.groups(), nullptr)};
  part.panels = context.packed(r, panel_format(layout), {DType::f32, {l.groups() * size}}, [&] {
    const float* const from = as<float>(r).data() + direction * l.gates() * l.hidden * l.hidden;
    const std::vector<float> all = by_group(l, from, l.hidden, first, count, true);
    const Tensor made(DType::f32, {l.groups() * size});
    for (std::int64_t group = 0; group < l.groups(); ++group)
      pack(l.hidden, wide, {all.data() + group * l.hidden * wide, wide, 1},
           as<float>(made).data() + group * size);
    return made;
  });
  return part;
}

Tensor input_panels(const RecurrentLayer& l, const Tensor& w, std::int64_t direction,
                    Context& context) {
  const std::string layout =
      "inputs of direction " + std::to_string(direction) + " units " + std::to_string(l.units());
  const TensorType type{DType::f32, {panel_values(l.input, l.columns())}};
  return context.packed(w, panel_format(layout), type, [&] {
    const float* const from = as<float>(w).data() + direction * l.gates() * l.hidden * l.input;
    const std::vector<float> all = by_group(l, from, l.input, 0, l.gates(), false);
    return panels_of(l.input, l.columns(), {all.data(), l.columns(), 1});
  });
}

// Adds both biases to the input's sums; with linear_before_reset the candidate's recurrent bias is
// added to the state's sums.
void add_biases(const RecurrentLayer& l, const float* b, RecurrentWeights& to) {
  const std::int64_t rows = l.gates() * l.hidden;
  const float* const of_r = b + rows;
  std::vector<float> sum(b, b + rows);
  for (std::int64_t i = 0; i < (l.late_reset ? 2 * l.hidden : rows); ++i)
    sum[static_cast<std::size_t>(i)] += of_r[i];
  const std::vector<float> all = by_group(l, sum.data(), 1, 0, l.gates(), false);
  std::copy(all.begin(), all.end(), to.bias.get());
  if (!l.late_reset) return;
  const std::vector<float> late = by_group(l, of_r, 1, 2, 1, false);
  std::copy(late.begin(), late.end(), to.parts[1].bias.get());
}

}  // namespace

RecurrentWeights recurrent_weights(const RecurrentLayer& l, std::int64_t d, const Graph& graph,
                                   const Node& node, Context& context) {
  const Tensor r = constant(graph, node, 2), b = constant(graph, node, 3);
  const Tensor p = constant(graph, node, 7);
  RecurrentWeights made{input_panels(l, constant(graph, node, 1), d, context),
                        packed_bias(l.columns(), nullptr),
                        {},
                        nullptr};
  const bool gru = l.kind == Recurrent::gru;
  made.parts.push_back(state_part(l, 0, gru ? 2 : l.gates(), r, d, context));
  if (gru) made.parts.push_back(state_part(l, 2, 1, r, d, context));
  if (b) add_biases(l, as<float>(b).data() + d * 2 * l.gates() * l.hidden, made);
  if (p) {
    made.peepholes = packed_bias(3 * l.padded(), nullptr);
    for (std::int64_t i = 0; i < 3; ++i)
      std::copy_n(as<float>(p).data() + (d * 3 + i) * l.hidden, l.hidden,
                  made.peepholes.get() + i * l.padded());
  }
  return made;
}

}  // namespace sluice::engine::cpu

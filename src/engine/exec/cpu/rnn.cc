// LSTM, GRU and RNN: one GEMM for the inputs of all time steps; then for each time step a GEMM of
// the state and the gates, in groups of units that one thread computes. The state's GEMM
// accumulates onto the inputs' sums, in the order of the state's units.
#include "engine/exec/cpu/rnn.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/exec/cpu/nodes.h"
#include "engine/ops/op.h"
#include "kernels/rnn/rnn_cells.h"
#include "tensor/byte_size.h"

namespace sluice::engine::cpu {
namespace {

constexpr std::int64_t kStepWork = 1 << 16;  // minimum multiply-adds of a step for another thread

// The input rows in the order of time steps; zeros past the end of a sequence.
class StepRows final : public RowSource {
 public:
  StepRows(const RecurrentLayer& layer, bool back, const std::vector<std::int64_t>& lengths,
           const float* x, const float* zeros)
      : l_(layer), back_(back), lengths_(lengths), x_(x), zeros_(zeros) {}

  void point(std::int64_t first, std::int64_t count, const float** to) const override {
    for (std::int64_t i = first; i < first + count; ++i) {
      const std::int64_t step = i / l_.batch, s = i % l_.batch;
      *to++ = step < length(s) ? x_ + l_.in(time(step, s), s) * l_.input : zeros_;
    }
  }

  std::int64_t length(std::int64_t s) const { return lengths_[static_cast<std::size_t>(s)]; }
  std::int64_t time(std::int64_t step, std::int64_t s) const {
    return back_ ? length(s) - 1 - step : step;
  }

 private:
  const RecurrentLayer& l_;
  bool back_;
  const std::vector<std::int64_t>& lengths_;
  const float *x_, *zeros_;
};

// The workspace of a run; directions use it one after the other.
struct Workspace {
  float *x, *sums, *h, *next, *c, *kept;

  static std::int64_t values(const RecurrentLayer& l) {
    return (l.steps + 1) * l.batch * l.columns() + 4 * l.batch * l.padded();
  }
  Workspace(const RecurrentLayer& l, float* at) {
    const std::int64_t state = l.batch * l.padded();
    x = at;
    sums = x + l.steps * l.batch * l.columns();
    h = sums + l.batch * l.columns();
    next = h + state, c = next + state, kept = c + state;
    std::fill_n(h, 4 * state, 0.0f);
  }
};

// Runs one direction.
class DirectionRun {
 public:
  DirectionRun(compute::Workers& workers, const RecurrentLayer& layer, const RecurrentWeights& of,
               const StepRows& rows, float* memory)
      : workers_(workers), l_(layer), of_(of), rows_(rows), workspace_(layer, memory) {
    packed_gemm(workers_,
                {.m = l_.steps * l_.batch,
                 .n = l_.columns(),
                 .segments = 1,
                 .depth = l_.input,
                 .panels = as<float>(of.panels).data(),
                 .bias = of.bias.get(),
                 .c = workspace_.x,
                 .c_row = l_.columns()},
                rows);
  }

  float* h() const { return workspace_.h; }
  float* c() const { return workspace_.c; }

  // `y`: the outputs of all time steps; may be null.
  void run(std::int64_t direction, float* y) {
    for (std::int64_t step = 0; step < l_.steps; ++step) {
      if (l_.kind == Recurrent::gru) each_group([&](std::int64_t group) { gru_gates(group); });
      each_group([&](std::int64_t group) {
        multiply_group(group);
        for (std::int64_t s = 0; s < l_.batch; ++s) {
          if (step >= rows_.length(s)) {
            std::copy_n(workspace_.h + state(s, group), l_.units(),
                        workspace_.next + state(s, group));
            continue;
          }
          advance(s, group);
          if (y != nullptr)
            give(s, group, y + l_.out(rows_.time(step, s), direction, s) * l_.hidden);
        }
      });
      std::swap(workspace_.h, workspace_.next);
      workspace_.x += l_.batch * l_.columns();
    }
  }

 private:
  std::int64_t state(std::int64_t s, std::int64_t group) const {
    return s * l_.padded() + group * l_.units();
  }
  std::int64_t sum(std::int64_t s, std::int64_t group) const {
    return s * l_.columns() + group * l_.gates() * l_.units();
  }
  std::int64_t candidate() const { return 2 * l_.units(); }  // GRU: offset behind the gates
  RnnCellUnits cell() const { return {l_.units(), l_.clip}; }

  // Threads get the same groups at each step as far as possible, so panels stay in their caches.
  template <class Body>
  void each_group(const Body& body) const {
    const std::int64_t groups = l_.groups(), work = l_.batch * l_.hidden * l_.columns();
    const std::int64_t max_chunks = std::min<std::int64_t>(workers_.threads(), groups);
    const std::int64_t chunks = std::clamp<std::int64_t>(work / kStepWork, 1, max_chunks);
    workers_.each(static_cast<std::size_t>(chunks), 1, [&](std::size_t begin, std::size_t) {
      const auto chunk = static_cast<std::int64_t>(begin);
      for (std::int64_t g = groups * chunk / chunks; g < groups * (chunk + 1) / chunks; ++g)
        body(g);
    });
  }

  // The GEMM of some gates, accumulated onto `to`, or onto the gates' own bias.
  void multiply_state(const StateGates& part, std::int64_t group, const float* from, float* to,
                      bool on_top) const {
    const std::int64_t wide = part.gates * l_.units();
    std::vector<const float*> rows(static_cast<std::size_t>(l_.batch));
    for (std::int64_t s = 0; s < l_.batch; ++s)
      rows[static_cast<std::size_t>(s)] = from + s * l_.padded();
    cpu::run(
        TileBlock{.rows = rows.data(),
                  .count = l_.batch,
                  .segments = 1,
                  .depth = l_.hidden,
                  .offset = 0,
                  .panels = as<float>(part.panels).data() + group * panel_values(l_.hidden, wide),
                  .panel_step = tile_shape().columns * l_.hidden,
                  .columns = wide,
                  .c = to,
                  .c_row = l_.columns(),
                  .begins = !on_top,
                  .bias = part.bias.get() + group * wide});
  }

  void gru_gates(std::int64_t group) const {
    multiply_state(of_.parts[0], group, workspace_.h, workspace_.sums + sum(0, group), false);
    for (std::int64_t s = 0; s < l_.batch; ++s)
      cell().gru_gates(workspace_.x + sum(s, group), workspace_.sums + sum(s, group),
                       workspace_.h + state(s, group), workspace_.kept + state(s, group));
  }

  // The GEMM before the next state.
  void multiply_group(std::int64_t group) const {
    if (l_.kind == Recurrent::gru)
      multiply_state(of_.parts[1], group, l_.late_reset ? workspace_.h : workspace_.kept,
                     workspace_.sums + sum(0, group) + candidate(), false);
    else
      multiply_state(of_.parts[0], group, workspace_.h, workspace_.x + sum(0, group), true);
  }

  void advance(std::int64_t s, std::int64_t group) const {
    const float *const x = workspace_.x + sum(s, group), *const sums =
                                                             workspace_.sums + sum(s, group);
    const float* const peepholes =
        of_.peepholes ? of_.peepholes.get() + group * l_.units() : nullptr;
    float* const to = workspace_.next + state(s, group);
    switch (l_.kind) {
      case Recurrent::rnn: return cell().rnn(x, l_.relu, to);
      case Recurrent::lstm:
        return cell().lstm(x, peepholes, l_.padded(), workspace_.c + state(s, group), to);
      case Recurrent::gru:
        return cell().gru_state(x + candidate(), sums + candidate(), sums, l_.late_reset,
                                workspace_.h + state(s, group), to);
    }
  }

  void give(std::int64_t s, std::int64_t group, float* y) const {
    const std::int64_t unit = group * l_.units();
    std::copy_n(workspace_.next + state(s, group), std::min(l_.units(), l_.hidden - unit),
                y + unit);
  }

  compute::Workers& workers_;
  const RecurrentLayer& l_;
  const RecurrentWeights& of_;
  const StepRows& rows_;
  Workspace workspace_;
};

class RecurrentKernel final : public Kernel {
 public:
  RecurrentKernel(const RecurrentLayer& layer, const Graph& graph, const Node& node,
                  Context& context)
      : workers_(context.workers), l_(layer), zeros_(packed_bias(layer.input, nullptr)) {
    for (std::int64_t d = 0; d < l_.directions; ++d)
      directions_.push_back(recurrent_weights(l_, d, graph, node, context));
  }

  void run(const KernelArgs& args) const override {
    const std::vector<std::int64_t> lengths = lengths_of(args);
    float* const y = output(args, 0);
    if (y != nullptr && std::any_of(lengths.begin(), lengths.end(),
                                    [&](std::int64_t length) { return length < l_.steps; }))
      std::fill_n(y, l_.steps * l_.batch * l_.directions * l_.hidden, 0.0f);
    for (std::int64_t d = 0; d < l_.directions; ++d) {
      const StepRows rows(l_, l_.reversed || d == 1, lengths, floats(args, 0), zeros_.get());
      DirectionRun run_direction(workers_, l_, directions_[static_cast<std::size_t>(d)], rows,
                                 static_cast<float*>(args.scratch));
      take(floats(args, 5), d, run_direction.h());
      if (l_.kind == Recurrent::lstm) take(floats(args, 6), d, run_direction.c());
      run_direction.run(d, y);
      give(run_direction.h(), d, output(args, 1));
      if (l_.kind == Recurrent::lstm) give(run_direction.c(), d, output(args, 2));
    }
  }
  std::string_view name() const override { return "recurrent layer"; }
  std::size_t scratch() const override {
    return byte_size(Shape{Workspace::values(l_)}, DType::f32);
  }
  bool reads_constant(std::size_t input) const override {
    return input == 0 || (input >= 4 && input <= 6);
  }

 private:
  static float* output(const KernelArgs& args, std::size_t i) {
    return i < args.outputs.size() ? static_cast<float*>(args.outputs[i]) : nullptr;
  }

  std::vector<std::int64_t> lengths_of(const KernelArgs& args) const {
    std::vector<std::int64_t> all(static_cast<std::size_t>(l_.batch), l_.steps);
    if (args.inputs.size() > 4 && args.inputs[4] != nullptr)
      std::copy_n(static_cast<const std::int32_t*>(args.inputs[4]), l_.batch, all.begin());
    for (const std::int64_t length : all)
      require(length >= 0 && length <= l_.steps, "a length of " + std::to_string(length));
    return all;
  }

  void take(const float* from, std::int64_t d, float* to) const {
    for (std::int64_t s = 0; from != nullptr && s < l_.batch; ++s)
      std::copy_n(from + l_.state(d, s) * l_.hidden, l_.hidden, to + s * l_.padded());
  }
  void give(const float* from, std::int64_t d, float* to) const {
    for (std::int64_t s = 0; to != nullptr && s < l_.batch; ++s)
      std::copy_n(from + s * l_.padded(), l_.hidden, to + l_.state(d, s) * l_.hidden);
  }

  compute::Workers& workers_;
  RecurrentLayer l_;
  Floats zeros_;
  std::vector<RecurrentWeights> directions_;
};

// Whether the activations are the default ones, or for an RNN all Relu.
bool has_supported_activations(const Node& node, Recurrent kind, bool& relu) {
  std::vector<std::string> defaults{"Tanh"};
  if (kind != Recurrent::rnn) defaults.insert(defaults.begin(), "Sigmoid");
  if (kind == Recurrent::lstm) defaults.push_back("Tanh");
  const std::vector<std::string> named = node.attributes.strings("activations");
  relu = kind == Recurrent::rnn && !named.empty() && named[0] == "Relu";
  for (std::size_t i = 0; i < named.size(); ++i)
    if (named[i] != (relu ? "Relu" : defaults[i % defaults.size()])) return false;
  return named.size() % defaults.size() == 0;
}

// False if an input does not match the layer: the reference operator then reports the error.
bool fits(const RecurrentLayer& l, const Graph& graph, const Node& node) {
  const std::int64_t rows = l.gates() * l.hidden;
  const Shape state = l.batch_first ? Shape{l.batch, l.directions, l.hidden}
                                    : Shape{l.directions, l.batch, l.hidden};
  const TensorType all[] = {{DType::f32, {l.directions, rows, l.input}},
                            {DType::f32, {l.directions, rows, l.hidden}},
                            {DType::f32, {l.directions, 2 * rows}},
                            {DType::i32, {l.batch}},
                            {DType::f32, state},
                            {DType::f32, state},
                            {DType::f32, {l.directions, 3 * l.hidden}}};
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) continue;
    const bool weights = i <= 3 || i == 7;
    if (i > std::size(all) || input_type(graph, node, i) != all[i - 1] ||
        (weights && !constant(graph, node, i)))
      return false;
  }
  return l.steps > 0 && l.batch > 0 && l.hidden > 0 && l.input > 0 && l.directions <= 2;
}

template <Recurrent kKind>
std::unique_ptr<Kernel> make(const Graph& graph, const Node& node, Context& context) {
  const TensorType x = input_type(graph, node, 0), r = input_type(graph, node, 2);
  bool relu = false;
  if (!is_f32(x) || x.shape.rank() != 3 || r.shape.rank() != 3 ||
      !has_supported_activations(node, kKind, relu) ||
      node.attributes.integer("input_forget", 0) != 0)
    return nullptr;
  const bool batch_first = node.attributes.integer("layout", 0) != 0;
  const std::string direction = node.attributes.string("direction", "forward");
  const float clip = node.attributes.real("clip", 0);
  const RecurrentLayer layer{.kind = kKind,
                             .batch_first = batch_first,
                             .reversed = direction == "reverse",
                             .late_reset = kKind == Recurrent::gru &&
                                           node.attributes.integer("linear_before_reset", 0) != 0,
                             .relu = relu,
                             .steps = x.shape[batch_first ? 1 : 0],
                             .batch = x.shape[batch_first ? 0 : 1],
                             .input = x.shape[2],
                             .hidden = r.shape[2],
                             .directions = direction == "bidirectional" ? 2 : 1,
                             .clip = clip > 0 ? clip : std::numeric_limits<float>::infinity()};
  if (!fits(layer, graph, node)) return nullptr;
  return std::make_unique<RecurrentKernel>(layer, graph, node, context);
}

constexpr Maker kRecurrentMakers[] = {
    {"GRU", "", make<Recurrent::gru>},
    {"LSTM", "", make<Recurrent::lstm>},
    {"RNN", "", make<Recurrent::rnn>},
};

}  // namespace

std::span<const Maker> rnn_kernels() { return kRecurrentMakers; }

}  // namespace sluice::engine::cpu

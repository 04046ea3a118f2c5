// LSTM, GRU and RNN: one product for the inputs of all steps; then, step by step, the state by
// its panels, in groups of units that one thread takes through product and gates. Sums go on from
// the inputs' part, in the order of the state's units.
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

constexpr std::int64_t kStepWork = 1 << 16;  // multiply-adds of a step worth another thread

// The input's rows in the order they are walked; zeros behind the end of a sequence.
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

// Memory of a run, one direction after the other.
struct Memory {
  float *x, *sums, *h, *next, *c, *kept;

  static std::int64_t values(const RecurrentLayer& l) {
    return (l.steps + 1) * l.batch * l.columns() + 4 * l.batch * l.padded();
  }
  Memory(const RecurrentLayer& l, float* at) {
    const std::int64_t state = l.batch * l.padded();
    x = at;
    sums = x + l.steps * l.batch * l.columns();
    h = sums + l.batch * l.columns();
    next = h + state, c = next + state, kept = c + state;
    std::fill_n(h, 4 * state, 0.0f);
  }
};

// One run of one direction.
class Walk {
 public:
  Walk(compute::Workers& workers, const RecurrentLayer& layer, const RecurrentWeights& of,
       const StepRows& rows, float* memory)
      : workers_(workers), l_(layer), of_(of), rows_(rows), memory_(layer, memory) {
    multiply(workers_,
             {.m = l_.steps * l_.batch,
              .n = l_.columns(),
              .segments = 1,
              .depth = l_.input,
              .panels = as<float>(of.panels).data(),
              .bias = of.bias.get(),
              .c = memory_.x,
              .c_row = l_.columns()},
             rows);
  }

  float* h() const { return memory_.h; }
  float* c() const { return memory_.c; }

  // `y` (null: nobody wants it) is where the first sequence's result at `time` would go.
  void run(std::int64_t direction, float* y) {
    for (std::int64_t step = 0; step < l_.steps; ++step) {
      if (l_.kind == Recurrent::gru) each_group([&](std::int64_t group) { gru_gates(group); });
      each_group([&](std::int64_t group) {
        multiply_group(group);
        for (std::int64_t s = 0; s < l_.batch; ++s) {
          if (step >= rows_.length(s)) {
            std::copy_n(memory_.h + state(s, group), l_.units(), memory_.next + state(s, group));
            continue;
          }
          advance(s, group);
          if (y != nullptr)
            give(s, group, y + l_.out(rows_.time(step, s), direction, s) * l_.hidden);
        }
      });
      std::swap(memory_.h, memory_.next);
      memory_.x += l_.batch * l_.columns();
    }
  }

 private:
  std::int64_t state(std::int64_t s, std::int64_t group) const {
    return s * l_.padded() + group * l_.units();
  }
  std::int64_t sum(std::int64_t s, std::int64_t group) const {
    return s * l_.columns() + group * l_.gates() * l_.units();
  }
  std::int64_t new_value() const { return 2 * l_.units(); }  // of a GRU, behind its gates
  CellUnits cell() const { return {l_.units(), l_.clip}; }

  // The same groups for a thread at each step, as far as can be: its panels stay in its cache.
  template <class Body>
  void each_group(const Body& body) const {
    const std::int64_t groups = l_.groups(), work = l_.batch * l_.hidden * l_.columns();
    const std::int64_t most = std::min<std::int64_t>(workers_.threads(), groups);
    const std::int64_t pieces = std::clamp<std::int64_t>(work / kStepWork, 1, most);
    workers_.each(static_cast<std::size_t>(pieces), 1, [&](std::size_t begin, std::size_t) {
      const auto piece = static_cast<std::int64_t>(begin);
      for (std::int64_t g = groups * piece / pieces; g < groups * (piece + 1) / pieces; ++g)
        body(g);
    });
  }

  // Sums of a part: on top of what is at `to`, or of the part's own bias.
  void multiply_state(const StatePart& part, std::int64_t group, const float* from, float* to,
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
    multiply_state(of_.parts[0], group, memory_.h, memory_.sums + sum(0, group), false);
    for (std::int64_t s = 0; s < l_.batch; ++s)
      cell().gru_gates(memory_.x + sum(s, group), memory_.sums + sum(s, group),
                       memory_.h + state(s, group), memory_.kept + state(s, group));
  }

  // What comes right before the next state.
  void multiply_group(std::int64_t group) const {
    if (l_.kind == Recurrent::gru)
      multiply_state(of_.parts[1], group, l_.late_reset ? memory_.h : memory_.kept,
                     memory_.sums + sum(0, group) + new_value(), false);
    else
      multiply_state(of_.parts[0], group, memory_.h, memory_.x + sum(0, group), true);
  }

  void advance(std::int64_t s, std::int64_t group) const {
    const float *const x = memory_.x + sum(s, group), *const sums = memory_.sums + sum(s, group);
    const float* const peepholes =
        of_.peepholes ? of_.peepholes.get() + group * l_.units() : nullptr;
    float* const to = memory_.next + state(s, group);
    switch (l_.kind) {
      case Recurrent::rnn: return cell().rnn(x, l_.relu, to);
      case Recurrent::lstm:
        return cell().lstm(x, peepholes, l_.padded(), memory_.c + state(s, group), to);
      case Recurrent::gru:
        return cell().gru_state(x + new_value(), sums + new_value(), sums, l_.late_reset,
                                memory_.h + state(s, group), to);
    }
  }

  void give(std::int64_t s, std::int64_t group, float* y) const {
    const std::int64_t unit = group * l_.units();
    std::copy_n(memory_.next + state(s, group), std::min(l_.units(), l_.hidden - unit), y + unit);
  }

  compute::Workers& workers_;
  const RecurrentLayer& l_;
  const RecurrentWeights& of_;
  const StepRows& rows_;
  Memory memory_;
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
      Walk walk(workers_, l_, directions_[static_cast<std::size_t>(d)], rows,
                static_cast<float*>(args.scratch));
      take(floats(args, 5), d, walk.h());
      if (l_.kind == Recurrent::lstm) take(floats(args, 6), d, walk.c());
      walk.run(d, y);
      give(walk.h(), d, output(args, 1));
      if (l_.kind == Recurrent::lstm) give(walk.c(), d, output(args, 2));
    }
  }
  std::string_view what() const override { return "steps by groups of units"; }
  std::size_t scratch() const override { return byte_size(Shape{Memory::values(l_)}, DType::f32); }
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

// The usual functions, or for an RNN all relu; false where it names others.
bool usual_functions(const Node& node, Recurrent kind, bool& relu) {
  std::vector<std::string> usual{"Tanh"};
  if (kind != Recurrent::rnn) usual.insert(usual.begin(), "Sigmoid");
  if (kind == Recurrent::lstm) usual.push_back("Tanh");
  const std::vector<std::string> named = node.attributes.strings("activations");
  relu = kind == Recurrent::rnn && !named.empty() && named[0] == "Relu";
  for (std::size_t i = 0; i < named.size(); ++i)
    if (named[i] != (relu ? "Relu" : usual[i % usual.size()])) return false;
  return named.size() % usual.size() == 0;
}

// False where an input is not what the layer says, which its operator then complains about.
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
      !usual_functions(node, kKind, relu) || node.attributes.integer("input_forget", 0) != 0)
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

std::span<const Maker> recurrent_kernels() { return kRecurrentMakers; }

}  // namespace sluice::engine::cpu

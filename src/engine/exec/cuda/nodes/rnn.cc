#include "kernels/rnn/rnn.h"

#include "engine/exec/cuda/nodes/node_view.h"
#include "engine/ops/nn/rnn_cells.h"
#include "tensor/byte_size.h"

namespace sluice::engine::cuda {
namespace {

using Kind = RnnCall::Kind;

std::vector<std::string> default_functions(Kind kind) {
  if (kind == Kind::rnn) return {"Tanh"};
  if (kind == Kind::gru) return {"Sigmoid", "Tanh"};
  return {"Sigmoid", "Tanh", "Tanh"};
}

// Whether all inputs have the layer's element type, and sequence lengths are integers.
bool types_match(const NodeView& view) {
  const DType type = view.in(0).dtype;
  if (!is_computed_real(type)) return false;
  for (std::size_t i = 1; i < view.inputs(); ++i) {
    if (!view.has(i)) continue;
    const DType own = view.in(i).dtype;
    if (i == 4 ? own != DType::i32 && own != DType::i64 : own != type) return false;
  }
  return true;
}

void set_functions(const NodeView& view, RnnCall& call) {
  const std::vector<std::string> defaults = default_functions(call.kind);
  const auto all =
      read_activations(view.attributes(), defaults, static_cast<std::size_t>(call.directions));
  for (std::size_t i = 0; i < all.size(); ++i)
    call.f[i / defaults.size()][i % defaults.size()] = {static_cast<int>(all[i].kind), all[i].alpha,
                                                        all[i].beta};
}

RnnCall with(RnnCall call, const KernelArgs& args) {
  const auto input = [&](std::size_t i) {
    return i < args.inputs.size() ? args.inputs[i] : nullptr;
  };
  const auto output = [&](std::size_t i) {
    return i < args.outputs.size() ? args.outputs[i] : nullptr;
  };
  const bool lstm = call.kind == Kind::lstm;
  call.x = input(0);
  call.w = input(1);
  call.r = input(2);
  call.b = input(3);
  call.lengths = input(4);
  call.error = args.error;
  call.first_h = input(5);
  call.first_c = lstm ? input(6) : nullptr;
  call.peepholes = lstm ? input(7) : nullptr;
  call.y = output(0);
  call.last_h = output(1);
  call.last_c = lstm ? output(2) : nullptr;
  return call;
}

template <Kind kKind>
std::unique_ptr<Kernel> recurrent(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  if (!types_match(view) || view.in(0).shape.rank() != 3 || view.in(2).shape.rank() != 3)
    return nullptr;
  const Attributes& given = view.attributes();
  RnnCall call{};
  call.kind = kKind;
  call.batch_first = given.integer("layout", 0) != 0;
  const Shape x = view.in(0).shape;
  call.steps = x[call.batch_first ? 1 : 0];
  call.batch = x[call.batch_first ? 0 : 1];
  call.input = x[2];
  call.hidden = view.in(2).shape[2];
  const std::string direction = given.string("direction", "forward");
  call.directions = direction == "bidirectional" ? 2 : 1;
  call.reversed = direction == "reverse";
  call.long_lengths = view.has(4) && view.in(4).dtype == DType::i64;
  call.clip = given.real("clip", 0);
  call.coupled = given.integer("input_forget", 0) != 0;
  call.late_reset = given.integer("linear_before_reset", 0) != 0;
  set_functions(view, call);
  if (call.directions * call.batch * call.hidden == 0) return nothing_to_do();
  const std::size_t scratch = byte_size(Shape{rnn_scratch_floats(call)}, DType::f32);
  return launched(
      "recurrent layer",
      [call, type = real_type(view.in(0).dtype)](const KernelArgs& args) {
        run_rnn(type, with(call, args), static_cast<float*>(args.scratch), args);
      },
      kReadsAll, scratch);
}

constexpr Maker kRecurrentMakers[] = {
    {"GRU", "", recurrent<Kind::gru>},
    {"LSTM", "", recurrent<Kind::lstm>},
    {"RNN", "", recurrent<Kind::rnn>},
};

}  // namespace

std::span<const Maker> rnn_kernels() { return kRecurrentMakers; }

}  // namespace sluice::engine::cuda

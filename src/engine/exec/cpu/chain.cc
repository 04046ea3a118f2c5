// Fused chains of elementwise operators, and single ones, a block at a time.
#include <algorithm>
#include <array>
#include <cstring>

#include "engine/exec/cpu/backend.h"
#include "engine/exec/cpu/elementwise.h"
#include "engine/exec/cpu/nodes.h"
#include "kernels/common/each_task.h"
#include "kernels/elementwise/chain_cpu.h"
#include "tensor/byte_size.h"

namespace sluice::engine::cpu {
namespace {

constexpr std::size_t kBlocksOfATask = 16;

// The output as rows of `length` elements; an input has a row of its own or broadcasts one element.
struct Rows {
  std::size_t length = 1;
  Shape outer;  // how many, by axis

  std::size_t offset(std::size_t row, std::span<const std::size_t> steps) const {
    std::size_t at = 0;
    for (int axis = outer.rank() - 1; axis >= 0; --axis) {
      const auto dim = static_cast<std::size_t>(outer[axis]);
      at += row % dim * steps[static_cast<std::size_t>(axis)];
      row /= dim;
    }
    return at;
  }
};

struct Input {
  std::size_t index;  // of the node's
  enum class Kind { full, scalar, broadcast } kind = Kind::full;
  std::vector<std::size_t> steps{};  // broadcast: strides along the outer axes,
  bool along = false;                //   and whether it has a row of its own
};

// Merges the axes of `common` along which all inputs are contiguous.
Rows merge(const Shape& common, std::span<const Shape> shapes, std::vector<Input>& inputs) {
  Shape merged;
  std::vector<std::vector<std::size_t>> steps(shapes.size());  // the innermost first
  std::vector<std::size_t> size(shapes.size(), 1);
  for (int axis = common.rank() - 1; axis >= 0; --axis) {
    if (common[axis] == 1) continue;
    std::vector<std::size_t> along(shapes.size());
    bool joins = merged.rank() > 0;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const int own = axis - (common.rank() - shapes[i].rank());
      const auto dim = static_cast<std::size_t>(own >= 0 ? shapes[i][own] : 1);
      along[i] = dim == 1 ? 0 : size[i];
      size[i] *= dim;
      joins = joins && along[i] == steps[i].back() * static_cast<std::size_t>(merged[0]);
    }
    if (joins) {
      merged[0] *= common[axis];
      continue;
    }
    merged.insert(0, common[axis]);
    for (std::size_t i = 0; i < shapes.size(); ++i) steps[i].push_back(along[i]);
  }
  Rows rows;
  if (merged.rank() == 0) return rows;
  rows.length = static_cast<std::size_t>(merged[merged.rank() - 1]);
  merged.erase(merged.rank() - 1);
  rows.outer = merged;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    inputs[i].along = steps[i].front() != 0;
    inputs[i].steps.assign(steps[i].rbegin(), steps[i].rend() - 1);
  }
  return rows;
}

class ChainKernel final : public Kernel {
 public:
  ChainKernel(Context& context, const Chain& chain, const Shape& shape,
              std::span<const Shape> shapes, std::vector<Input> inputs)
      : workers_(context.workers),
        code_(compile(chain)),
        inputs_(std::move(inputs)),
        rows_(merge(shape, shapes, inputs_)),
        size_(static_cast<std::size_t>(shape.size())) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      inputs_[i].kind = shapes[i].size() == 1              ? Input::Kind::scalar
                        : shapes[i].size() == shape.size() ? Input::Kind::full
                                                           : Input::Kind::broadcast;
      if (size_ == 1) inputs_[i].kind = Input::Kind::full;
      if (in_place_ < 0 && shapes[i] == shape) in_place_ = static_cast<int>(inputs_[i].index);
    }
  }

  void run(const KernelArgs& args) const override {
    constexpr std::size_t kTask = kBlocksOfATask * kChainBlock;
    each_task(workers_, (size_ + kTask - 1) / kTask, [&](std::size_t task, std::size_t slot) {
      std::vector<ChainRegister> registers =
          prepare(args, static_cast<float*>(args.scratch) + slot * slot_floats());
      const std::size_t end = std::min(size_, (task + 1) * kTask);
      for (std::size_t at = task * kTask; at < end; at += kChainBlock) {
        const std::size_t count = std::min(kChainBlock, end - at);
        for (std::size_t i = 0; i < inputs_.size(); ++i) read(args, i, at, count, registers[i]);
        registers.back().at = static_cast<float*>(args.outputs[0]) + at;
        run_block(code_, registers, count);
      }
    });
  }
  std::string_view name() const override { return "elementwise"; }
  std::size_t scratch() const override {
    return byte_size(Shape{workers_.threads(), static_cast<std::int64_t>(slot_floats())},
                     DType::f32);
  }
  int in_place() const override { return in_place_; }

 private:
  // A block for each input and each temporary, a vector for each constant.
  std::size_t slot_floats() const {
    return (inputs_.size() + static_cast<std::size_t>(code_.temporaries)) * kChainBlock +
           code_.constants.size() * kMaxChainLanes;
  }

  std::vector<ChainRegister> prepare(const KernelArgs& args, float* memory) const {
    std::vector<ChainRegister> registers(static_cast<std::size_t>(code_.registers()));
    for (std::size_t i = 0; i < registers.size() - 1; ++i) {
      registers[i].at = memory;
      const std::size_t constant = i - inputs_.size();
      registers[i].is_scalar = i < inputs_.size() ? inputs_[i].kind == Input::Kind::scalar
                                                  : constant < code_.constants.size();
      if (registers[i].is_scalar)
        std::fill(memory, memory + kMaxChainLanes,
                  i < inputs_.size() ? *floats(args, inputs_[i].index) : code_.constants[constant]);
      const bool vector = i >= inputs_.size() && registers[i].is_scalar;
      memory += vector ? kMaxChainLanes : kChainBlock;
    }
    return registers;
  }

  // Elements [at, at + count) of the input: its own memory if contiguous, else a copy.
  void read(const KernelArgs& args, std::size_t i, std::size_t at, std::size_t count,
            ChainRegister& to) const {
    const Input& input = inputs_[i];
    if (input.kind == Input::Kind::scalar) return;
    const float* const from = floats(args, input.index);
    if (input.kind == Input::Kind::full) {
      to.at = const_cast<float*>(from) + at;  // instructions do not write to inputs
      return;
    }
    float* out = to.at;
    std::size_t row = at / rows_.length, begin = at % rows_.length;
    for (; count > 0; ++row, begin = 0) {
      const std::size_t some = std::min(count, rows_.length - begin);
      const float* const own = from + rows_.offset(row, input.steps);
      if (input.along)
        std::memcpy(out, own + begin, some * sizeof(float));
      else
        std::fill(out, out + some, *own);
      out += some;
      count -= some;
    }
  }

  compute::Workers& workers_;
  ChainCode code_;
  std::vector<Input> inputs_;
  Rows rows_;
  std::size_t size_;
  int in_place_ = -1;
};

// Null if an input has another type or the output is empty.
std::unique_ptr<Kernel> make(const Graph& graph, const Node& node, Context& context,
                             const Chain& chain, std::span<const std::size_t> from) {
  std::vector<Shape> shapes;
  std::vector<Input> inputs;
  Shape shape;
  for (const std::size_t i : from) {
    const TensorType type = input_type(graph, node, i);
    if (type.dtype != DType::f32) return nullptr;
    shape = broadcast(shape, type.shape);
    shapes.push_back(type.shape);
    inputs.push_back({i});
  }
  if (shape.size() == 0 || chain.instructions.empty() ||
      chain.instructions.back().op == Chain::Op::constant || node.outputs.empty() ||
      !(type_of(graph[node.outputs[0]]) == TensorType{DType::f32, shape}))
    return nullptr;
  return std::make_unique<ChainKernel>(context, chain, shape, shapes, std::move(inputs));
}

std::unique_ptr<Kernel> make_chain(const Graph& graph, const Node& node, Context& context) {
  std::vector<std::size_t> all(node.inputs.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  return make(graph, node, context, chain_of(node.attributes, all.size()), all);
}

std::unique_ptr<Kernel> make_single(const Graph& graph, const Node& node, Context& context) {
  const std::optional<Single> single = as_chain(node);
  if (!single) return nullptr;
  return make(graph, node, context, single->chain, single->inputs);
}

constexpr std::array<std::string_view, 28> kSingles = {
    "Add",   "Sub",  "Mul",     "Div",        "Pow",  "Min",       "Max",
    "Sum",   "Neg",  "Abs",     "Reciprocal", "Sqrt", "Exp",       "Log",
    "Erf",   "Tanh", "Sigmoid", "Relu",       "Gelu", "HardSwish", "Softplus",
    "Floor", "Ceil", "Sin",     "Cos",        "Clip", "LeakyRelu", "HardSigmoid"};

constexpr auto kChainMakers = [] {
  std::array<Maker, kSingles.size() + 1> makers{};
  for (std::size_t i = 0; i < kSingles.size(); ++i) makers[i] = {kSingles[i], "", make_single};
  makers.back() = {"Chain", kFused, make_chain};
  return makers;
}();

}  // namespace

std::span<const Maker> chain_kernels() { return kChainMakers; }

}  // namespace sluice::engine::cpu

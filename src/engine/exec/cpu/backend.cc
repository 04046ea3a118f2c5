#include "engine/exec/cpu/backend.h"

#include <cstring>

#include "engine/ops/op.h"

namespace sluice::engine::cpu {
namespace {

// Outputs at the addresses that the schedule assigned.
class Placed final : public OutputSink {
 public:
  Placed(std::span<void* const> outputs, std::span<const TensorType> types)
      : outputs_(outputs), types_(types) {}

  Tensor allocate(std::size_t i, DType dtype, const Shape& shape) override {
    check(i, dtype, shape);
    return Tensor::view(dtype, shape, outputs_[i], nullptr);
  }
  void set(std::size_t i, const Datum& value) override {
    check(i, value.tensor.dtype(), value.tensor.shape());
    if (value.tensor.bytes() > 0 && value.tensor.data() != outputs_[i])
      std::memcpy(outputs_[i], value.tensor.data(), value.tensor.bytes());
  }

 private:
  void check(std::size_t i, DType dtype, const Shape& shape) const {
    if (!(types_[i] == TensorType{dtype, shape}))
      throw Error(Code::internal, "output " + std::to_string(i) + " of " + to_string(shape) +
                                      " was planned as " + to_string(types_[i].shape));
  }

  std::span<void* const> outputs_;
  std::span<const TensorType> types_;
};

// Runs the reference operator.
class OpKernel final : public Kernel {
 public:
  OpKernel(const Graph& graph, const Node& node, compute::Workers& workers)
      : node_(node), op_(op_of(node)), workers_(workers) {
    for (const ValueId id : node.inputs) inputs_.push_back(type(graph, id));
    for (const ValueId id : node.outputs) outputs_.push_back(type(graph, id));
  }

  void run(const KernelArgs& args) const override {
    std::vector<Datum> inputs;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      inputs.push_back(
          inputs_[i].dtype == DType::none
              ? Datum()
              : Tensor::view(inputs_[i].dtype, inputs_[i].shape, args.inputs[i], nullptr));
    Placed places(args.outputs, outputs_);
    OpCall call(node_, inputs, places, workers_);
    op_.run(call);
  }
  std::string_view name() const override { return "operator"; }

 private:
  static TensorType type(const Graph& graph, ValueId id) {
    if (id == kNoValue) return {};
    const TensorType type = type_of(graph[id]);
    if (type.dtype == DType::string)
      throw Error(Code::unavailable, "'" + graph[id].name + "' holds strings");
    return type;
  }

  const Node& node_;
  const Op& op_;
  compute::Workers& workers_;
  std::vector<TensorType> inputs_, outputs_;
};

}  // namespace

Tensor Context::packed(const Tensor& constant, const std::string& layout, const TensorType& type,
                       const std::function<Tensor()>& make) {
  // Constants of different shapes may share their data, after a reshape.
  const std::string full_layout = layout + " of " + to_string(constant.shape());
  const Lock lock(mutex_);
  const Packed* known = packed_.find({constant.data(), full_layout});
  const Tensor result = known != nullptr ? known->result : make();
  if (result.dtype() != type.dtype || result.bytes() != type.bytes())
    throw Error(Code::invalid_argument,
                "packed weights are " + std::string(to_string(result.dtype())) +
                    to_string(result.shape()) + ", not " + std::string(to_string(type.dtype)) +
                    to_string(type.shape));
  if (known == nullptr)
    packed_.add({constant.data(), full_layout}, {constant, full_layout, result});
  return result;
}

std::vector<Context::Packed> Context::all_packed() const {
  const Lock lock(mutex_);
  return packed_.all();
}

void Context::restore(Packed packed) {
  const Lock lock(mutex_);
  const auto key = std::pair(static_cast<const void*>(packed.constant.data()), packed.layout);
  packed_.preload(key, std::move(packed));
}

std::unique_ptr<Kernel> make_kernel(const Graph& graph, const Node& node, Context& context) {
  for (const std::span<const Maker> family :
       {linear_kernels(), int8_kernels(), fp8_kernels(), conv_kernels(), norm_kernels(),
        attention_kernels(), token_kernels(), chain_kernels(), rnn_kernels(),
        data_movement_kernels()})
    for (const Maker& maker : family)
      if (maker.op == node.op && maker.domain == node.domain)
        if (auto kernel = maker.make(graph, node, context)) return kernel;
  return std::make_unique<OpKernel>(graph, node, context.workers);
}

}  // namespace sluice::engine::cpu

#include "engine/shapes/specialize.h"

#include <sys/mman.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "engine/ops/op.h"
#include "engine/shapes/flops.h"

namespace sluice::engine {
namespace {

constexpr std::size_t kMaxFoldedBytes = 1u << 20;        // bytes that a folded value may add
constexpr double kMaxFoldingOps = 2e10;                  // operations of all folded nodes
constexpr std::size_t kMaxBytes = std::size_t{1} << 47;  // of one value: the addressable memory

// Inputs whose contents determine the output shapes of an operator.
struct ShapeInput {
  std::string_view op;
  std::size_t first, last;
};
constexpr std::size_t kAll = 1000;
constexpr ShapeInput kShapeInputs[] = {
    {"AffineGrid", 1, 1},
    {"BlackmanWindow", 0, 0},
    {"CenterCropPad", 1, 1},
    {"Col2Im", 1, 2},
    {"Compress", 0, kAll},
    {"ConstantOfShape", 0, 0},
    {"DFT", 1, 2},
    {"Expand", 1, 1},
    {"HammingWindow", 0, 0},
    {"HannWindow", 0, 0},
    {"ImageDecoder", 0, 0},
    {"MaxUnpool", 2, 2},
    {"MelWeightMatrix", 0, 4},
    {"NonMaxSuppression", 0, kAll},
    {"NonZero", 0, 0},
    {"OneHot", 1, 1},
    {"Pad", 1, 3},
    {"Range", 0, 2},
    {"ReduceL1", 1, 1},
    {"ReduceL2", 1, 1},
    {"ReduceLogSum", 1, 1},
    {"ReduceLogSumExp", 1, 1},
    {"ReduceMax", 1, 1},
    {"ReduceMean", 1, 1},
    {"ReduceMin", 1, 1},
    {"ReduceProd", 1, 1},
    {"ReduceSum", 1, 1},
    {"ReduceSumSquare", 1, 1},
    {"Reshape", 1, 1},
    {"Resize", 1, 3},
    {"STFT", 1, 3},
    {"Slice", 1, 4},
    {"Split", 1, 1},
    {"SplitToSequence", 0, kAll},
    {"Squeeze", 1, 1},
    {"StringNormalizer", 0, 0},
    {"StringSplit", 0, 0},
    {"TfIdfVectorizer", 0, 0},
    {"Tile", 1, 2},
    {"TopK", 1, 1},
    {"Unique", 0, kAll},
    {"Unsqueeze", 1, 1},
    {"Upsample", 1, 1},
};

// Quantized constants stay quantized; the passes decide where to dequantize them.
bool stays_quantized(const Node& node) {
  return node.domain.empty() && node.op == "DequantizeLinear";
}

// The estimated cost of folding a node; infinite if it depends on attributes rather than on the
// sizes of inputs and outputs.
double folding_work(const Graph& graph, const Node& node, std::span<const Datum> inputs) {
  constexpr std::string_view kByAttributes[] = {"Det", "MaxRoiPool", "RegexFullMatch", "RoiAlign",
                                                "TfIdfVectorizer"};
  if (std::ranges::find(kByAttributes, node.op) != std::end(kByAttributes))
    return std::numeric_limits<double>::infinity();
  double work = flops(graph, node);
  if (node.op != "Einsum" && node.op != "DeformConv") return work;
  work = 1;  // upper bound: the product of all input sizes
  for (const Datum& input : inputs) work *= std::max(1.0, static_cast<double>(input.tensor.size()));
  return work;
}

// Operators that read only the shape of their input.
bool reads_shape_only(const Node& node) {
  return node.domain.empty() && (node.op == "Shape" || node.op == "Size" || node.op == "EyeLike");
}

[[noreturn]] void refuse(const Node& node, const std::string& why) {
  throw Error(Code::unavailable, describe(node) + ": " + why);
}

// A placeholder for the contents of run-time values: zero pages that take no memory.
class Placeholder {
 public:
  Tensor tensor(const TensorType& type) {
    if (type.dtype == DType::string) return {type.dtype, type.shape};
    if (type.bytes() > bytes_) map(type.bytes());
    return Tensor::view(type.dtype, type.shape, zeros_.get(), zeros_);
  }

 private:
  void map(std::size_t bytes) {
    void* const at =
        ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
      throw Error(Code::exhausted, "a tensor of " + std::to_string(bytes) + " bytes");
    zeros_ = std::shared_ptr<void>(at, [bytes](void* p) { ::munmap(p, bytes); });
    bytes_ = bytes;
  }

  std::shared_ptr<void> zeros_;
  std::size_t bytes_ = 0;
};

// Infers the output types of a node by running it until it has declared all of them.
class TypeProbe final : public OutputSink {
 public:
  explicit TypeProbe(const Node& node) : node_(node), types_(node.outputs.size()) {
    for (const ValueId id : node.outputs)
      if (id != kNoValue) ++left_;
  }

  std::vector<std::optional<TensorType>> run(const Op& op, std::span<const Datum> inputs,
                                             compute::Workers& workers) {
    try {
      OpCall call(node_, inputs, *this, workers);
      op.run(call);
    } catch (const AllDeclared&) {
    }
    if (left_ > 0) refuse(node_, "not all of its outputs were declared");
    return std::move(types_);
  }

  Tensor allocate(std::size_t i, DType dtype, const Shape& shape) override {
    note(i, {dtype, shape});
    return {dtype, shape};
  }
  void set(std::size_t i, const Datum& value) override {
    if (value.kind != Datum::Kind::tensor) refuse(node_, "an output is not a tensor");
    note(i, {value.tensor.dtype(), value.tensor.shape()});
  }
  void declare(std::size_t i, DType dtype, const Shape& shape) override { note(i, {dtype, shape}); }

 private:
  struct AllDeclared {};

  void note(std::size_t i, const TensorType& type) {
    require(type.bytes() < kMaxBytes, "more elements than memory can hold");
    if (!types_[i]) --left_;
    types_[i] = type;
    if (left_ == 0) throw AllDeclared();
  }

  const Node& node_;
  std::vector<std::optional<TensorType>> types_;
  int left_ = 0;
};

class NoSubgraphs final : public SubgraphRunner {
 public:
  std::vector<Datum> run(const Graph&, std::span<const Datum>) override {
    throw Error(Code::internal, "a node with subgraphs was folded");
  }
};

std::vector<Dim> dims_of(const Shape& shape) {
  std::vector<Dim> dims;
  for (const std::int64_t size : shape) dims.push_back({size, ""});
  return dims;
}

class Specializer {
 public:
  Specializer(const Graph& graph, compute::Workers& workers) : made_(graph), workers_(workers) {
    made_.nodes.clear();
  }

  Graph run(const Graph& graph, std::span<const TensorType> inputs) {
    require(inputs.size() == graph.inputs.size(),
            "the model takes " + std::to_string(graph.inputs.size()) + " inputs, not " +
                std::to_string(inputs.size()));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      made_[graph.inputs[i]].constant = {};  // replaces the default
      set_type(graph.inputs[i], inputs[i]);
    }
    for (Value& value : made_.values)
      if (value.constant) value.dims = dims_of(value.constant.shape());
    for (const Node& node : graph.nodes) step(node);
    return std::move(made_);
  }

 private:
  void set_type(ValueId id, const TensorType& type) {
    Value& value = made_[id];
    value.kind = onnx::Type::Kind::tensor;
    value.dtype = type.dtype;
    value.dims = dims_of(type.shape);
  }

  void step(const Node& node) {
    if (const Graph* const body = taken_branch(node)) return inline_graph(*body, node);
    if (!node.subgraphs.empty()) refuse(node, "it runs other graphs");
    refuse_unknown_shape(node);
    std::vector<Datum> inputs;
    bool known = !is_random(node);
    std::size_t bytes = 0;
    for (const ValueId id : node.inputs) {
      inputs.push_back(id == kNoValue ? Datum() : datum(node, id));
      if (id == kNoValue) continue;
      known = known && (made_[id].constant || reads_shape_only(node));
      bytes += inputs.back().tensor.bytes();
    }
    const Op& op = op_of(node);
    check_type(op, inputs);
    const auto types = TypeProbe(node).run(op, inputs, workers_);
    std::size_t added = 0;
    for (const auto& type : types)
      if (type) added += type->bytes();
    for (std::size_t i = 0; i < types.size(); ++i)
      if (types[i]) set_type(node.outputs[i], *types[i]);
    known = known && !stays_quantized(node) && added <= std::max(kMaxFoldedBytes, bytes);
    const double work = known ? folding_work(made_, node, inputs) : 0;
    if (!known || work > work_left_) return made_.nodes.push_back(node);
    work_left_ -= work;
    fold(node, op, inputs);
  }

  // The taken branch of an If whose condition is constant.
  const Graph* taken_branch(const Node& node) const {
    if (!node.domain.empty() || node.op != "If" || node.inputs.size() != 1 ||
        node.inputs[0] == kNoValue)
      return nullptr;
    const Tensor& condition = made_[node.inputs[0]].constant;
    if (!condition || condition.dtype() != DType::boolean || condition.size() != 1) return nullptr;
    return node.subgraph(condition.values<bool>()[0] ? "then_branch" : "else_branch");
  }

  // Inlines a subgraph in place of `node`.
  void inline_graph(const Graph& body, const Node& node) {
    std::vector<ValueId> here(body.values.size(), kNoValue);
    for (const Graph::Captured& captured : body.captured)
      here[static_cast<std::size_t>(captured.inner)] = captured.outer;
    for (std::size_t i = 0; i < here.size(); ++i) {
      if (here[i] != kNoValue) continue;
      here[i] = static_cast<ValueId>(made_.values.size());
      made_.values.push_back(body.values[i]);
      Value& value = made_.values.back();
      if (value.constant) value.dims = dims_of(value.constant.shape());
    }
    const auto to_here = [&](ValueId id) {
      return id == kNoValue ? kNoValue : here[static_cast<std::size_t>(id)];
    };
    for (Node inner : body.nodes) {
      std::ranges::transform(inner.inputs, inner.inputs.begin(), to_here);
      std::ranges::transform(inner.outputs, inner.outputs.begin(), to_here);
      for (auto& [name, nested] : inner.subgraphs) {
        auto moved = std::make_shared<Graph>(*nested);
        for (Graph::Captured& captured : moved->captured) captured.outer = to_here(captured.outer);
        nested = std::move(moved);
      }
      step(inner);
    }
    for (std::size_t i = 0; i < node.outputs.size() && i < body.outputs.size(); ++i)
      if (node.outputs[i] != kNoValue)
        step({.name = node.name,
              .op = "Identity",
              .domain = "",
              .version = node.version,
              .inputs = {to_here(body.outputs[i])},
              .outputs = {node.outputs[i]}});
  }

  void refuse_unknown_shape(const Node& node) const {
    if (!node.domain.empty()) return;
    for (const ShapeInput& rule : kShapeInputs) {
      if (rule.op != node.op) continue;
      for (std::size_t i = rule.first; i <= rule.last && i < node.inputs.size(); ++i)
        if (node.inputs[i] != kNoValue && !made_[node.inputs[i]].constant)
          refuse(node, "its shape depends on what '" + made_[node.inputs[i]].name + "' holds");
    }
  }

  Datum datum(const Node& node, ValueId id) {
    const Value& value = made_[id];
    if (value.constant) return value.constant;
    if (value.kind != onnx::Type::Kind::tensor || !value.dims)
      refuse(node, "'" + value.name + "' is no tensor");
    return placeholder_.tensor(type_of(value));
  }

  void fold(const Node& node, const Op& op, std::span<const Datum> inputs) {
    std::vector<Datum> outputs(node.outputs.size());
    NoSubgraphs none;
    OpCall call(node, inputs, outputs, workers_, none);
    op.run(call);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (node.outputs[i] != kNoValue) made_[node.outputs[i]].constant = outputs[i].tensor;
  }

  Graph made_;
  compute::Workers& workers_;
  Placeholder placeholder_;
  double work_left_ = kMaxFoldingOps;
};

}  // namespace

Graph specialize(const Graph& graph, std::span<const TensorType> inputs,
                 compute::Workers& workers) {
  return Specializer(graph, workers).run(graph, inputs);
}

}  // namespace sluice::engine

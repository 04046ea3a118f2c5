#include "engine/shapes/flops.h"

#include <algorithm>

#include "engine/graph/graph_editor.h"
#include "engine/graph/tensor_type.h"

namespace sluice::engine {
namespace {

constexpr std::string_view kMoves[] = {
    "Cast",           "CastLike",        "Concat",    "Constant", "ConstantOfShape",
    "DepthToSpace",   "Expand",          "EyeLike",   "Flatten",  "Gather",
    "GatherElements", "GatherND",        "Identity",  "OneHot",   "Pad",
    "Range",          "Reshape",         "Shape",     "Size",     "Slice",
    "SpaceToDepth",   "Split",           "Squeeze",   "Tile",     "Transpose",
    "Unsqueeze",      "ScatterElements", "ScatterND", "Where",    "Trilu",
};

class Counted {
 public:
  Counted(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  double run() const {
    const std::string& op = node_.op;
    if (is_view(node_) || std::ranges::find(kMoves, op) != std::end(kMoves)) return 0;
    if (node_.domain == kFused) return fused();
    if (op == "MatMul" || op == "MatMulInteger" || op == "QLinearMatMul") return matmul();
    if (op == "Gemm") return gemm();
    if (op == "Conv" || op == "ConvInteger") return convolution(1);
    if (op == "QLinearConv") return convolution(3);
    if (op == "ConvTranspose") return 2 * size_in(0) * per_output(shape_in(1)) / groups();
    if (op == "Attention") return attention();
    if (op == "LSTM") return recurrent(4);
    if (op == "GRU") return recurrent(3);
    if (op == "RNN") return recurrent(1);
    if (op == "MaxPool" || op == "AveragePool" || op == "LpPool") return pool("kernel_shape");
    return std::max(size_in(0), size_out());
  }

 private:
  Shape shape_in(std::size_t i) const {
    if (i >= node_.inputs.size() || node_.inputs[i] == kNoValue) return Shape{0};
    return type_of(graph_[node_.inputs[i]]).shape;
  }
  double size_in(std::size_t i) const { return static_cast<double>(shape_in(i).size()); }
  double size_out() const {
    if (node_.outputs.empty() || node_.outputs[0] == kNoValue) return 0;
    return static_cast<double>(type_of(graph_[node_.outputs[0]]).shape.size());
  }
  double groups() const { return static_cast<double>(node_.attributes.integer("group", 1)); }

  // Elements of a weight per index of its first dimension.
  static double per_output(const Shape& weight) {
    return weight.rank() < 1 ? 0 : static_cast<double>(weight.size(1, weight.rank()));
  }
  double convolution(std::size_t weight) const {
    return 2 * size_out() * per_output(shape_in(weight));
  }
  double matmul() const {
    const Shape a = shape_in(0);
    return a.rank() == 0 ? 0 : 2 * size_out() * static_cast<double>(a[a.rank() - 1]);
  }
  double gemm() const {
    const Shape a = shape_in(0);
    if (a.rank() != 2) return 0;
    const bool transposed_a = node_.attributes.flag("transA");
    return 2 * size_out() * static_cast<double>(a[transposed_a ? 0 : 1]) +
           (node_.inputs.size() > 2 ? size_out() : 0);
  }
  double pool(std::string_view kernel) const {
    double looked_at = 1;
    for (const std::int64_t size : node_.attributes.integers(kernel))
      looked_at *= static_cast<double>(size);
    return size_out() * looked_at;
  }

  // ONNX's: [batch, heads, length, size], or [batch, length, heads * size].
  double attention() const {
    const Shape q = shape_in(0), k = shape_in(1), v = shape_in(2);
    if (q.rank() < 3 || k.rank() != q.rank() || v.rank() != q.rank()) return 0;
    const int length = q.rank() - 2;
    const double keys = static_cast<double>(k[length]);
    const double value_width =
        static_cast<double>(v.size()) /
        static_cast<double>(std::max<std::int64_t>(1, v.size(0, length + 1)));
    return 2 * keys * (size_in(0) + static_cast<double>(q.size(0, length + 1)) * value_width);
  }
  // X [length, batch, in], R [directions, gates * hidden, hidden].
  double recurrent(double gates) const {
    const Shape x = shape_in(0), r = shape_in(2);
    if (x.rank() != 3 || r.rank() != 3) return 0;
    const double hidden = static_cast<double>(r[2]);
    return 2 * gates * hidden * (static_cast<double>(x[2]) + hidden) *
           static_cast<double>(x[0] * x[1] * r[0]);
  }
  double fused() const {
    const std::string& op = node_.op;
    if (op == "Linear" || op == "QuantizedLinear")
      return 2 * size_out() * static_cast<double>(shape_in(1)[0]);
    if (op == "Conv" || op == "QuantizedConv") return convolution(1);
    if (op == "MaxPool" || op == "AveragePool") return pool("kernel");
    if (op != "Attention") return std::max(size_in(0), size_out());
    const Shape q = shape_in(0);
    const bool packed = node_.attributes.flag("packed");
    double keys = static_cast<double>(packed ? q[1] : shape_in(1)[1]);
    // Varlen sequences, as if all had the same length, which is a lower bound.
    if (node_.inputs.size() > 4) keys /= std::max(1.0, size_in(4) - 1);
    return 4 * size_out() * keys;
  }

  const Graph& graph_;
  const Node& node_;
};

}  // namespace

double flops(const Graph& graph, const Node& node) { return Counted(graph, node).run(); }

double flops(const Graph& graph) {
  double sum = 0;
  for (const Node& node : graph.nodes) sum += flops(graph, node);
  return sum;
}

}  // namespace sluice::engine

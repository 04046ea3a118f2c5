// Converts image operators to channels-last (NHWC), which is faster. A converted node also gets a
// Transpose back to NCHW, which is removed as dead if it has no users.
#include <algorithm>
#include <map>
#include <set>

#include "engine/ops/window.h"
#include "engine/passes/match.h"
#include "engine/passes/passes.h"
#include "engine/passes/quantized.h"

namespace sluice::engine {
namespace {

const Order kToLast{0, 2, 3, 1}, kToFirst{0, 3, 1, 2};
constexpr std::int64_t kNhwcAxis[] = {0, 3, 1, 2};  // the NHWC axis of each NCHW axis

std::int64_t nhwc_axis(std::int64_t axis) { return kNhwcAxis[axis < 0 ? axis + 4 : axis]; }

bool is_elementwise(const GraphEditor& edit, const Node& node) {
  constexpr std::string_view kOps[] = {"Abs",         "Add",
                                       "Cast",        "Ceil",
                                       "Celu",        "Clip",
                                       "Cos",         "Div",
                                       "Elu",         "Erf",
                                       "Exp",         "Floor",
                                       "HardSigmoid", "LeakyRelu",
                                       "Log",         "Max",
                                       "Min",         "Mish",
                                       "Mul",         "Neg",
                                       "PRelu",       "Pow",
                                       "Reciprocal",  "Relu",
                                       "Selu",        "Sigmoid",
                                       "Sin",         "Softplus",
                                       "Softsign",    "Sqrt",
                                       "Sub",         "Sum",
                                       "Tanh",        "ThresholdedRelu"};
  if (node.domain == kFused) return node.op == "Chain";
  if (is_onnx(node, "QuantizeLinear") || is_onnx(node, "DequantizeLinear"))
    return edit.type(node.inputs[1]).shape.size() == 1;
  return is_onnx(node, node.op) &&
         std::find(std::begin(kOps), std::end(kOps), node.op) != std::end(kOps) &&
         (node.version >= 7 || node.inputs.size() == 1);
}

// The zero padding of height and width; none if the Pad does anything else.
std::optional<std::vector<std::int64_t>> image_edges(const GraphEditor& edit, NodeId pad) {
  const Node& node = edit.node(pad);
  const auto pads = list_of(edit, pad, 1, "pads");
  const bool has_value = node.inputs.size() > 2 && node.inputs[2] != kNoValue;
  const bool zeros =
      has_value ? edit.scalar(node.inputs[2]) == 0.0 : node.attributes.real("value", 0) == 0;
  if (!pads || pads->size() != 8 || !zeros || node.inputs.size() > 3 ||
      node.attributes.string("mode", "constant") != "constant")
    return {};
  const std::vector<std::int64_t>& p = *pads;
  if (p[0] != 0 || p[1] != 0 || p[4] != 0 || p[5] != 0) return {};
  const std::vector<std::int64_t> edges{p[2], p[3], p[6], p[7]};
  const bool grows = std::all_of(edges.begin(), edges.end(), [](auto edge) { return edge >= 0; });
  return grows ? std::optional(edges) : std::nullopt;
}

bool is_image_conv(const GraphEditor& edit, const Node& node) {
  if (!is_onnx(node, "Conv")) return false;
  const TensorType x = edit.type(node.inputs[0]);
  const Tensor& weights = edit.constant(node.inputs[1]);
  const bool has_bias = node.inputs.size() > 2 && node.inputs[2] != kNoValue;
  return is_fusable(x.dtype) && x.shape.rank() == 4 && weights && weights.dtype() == x.dtype &&
         (!has_bias || edit.constant(node.inputs[2])) && x.shape.size() > 0 &&
         edit.type(node.outputs[0]).shape.size() > 0;
}

void set_window(Node& node, const Window& window) {
  Attributes::Integers kernel, strides, dilations, pads;
  for (const Window::Axis& axis : window.axes()) {
    kernel.push_back(axis.kernel);
    strides.push_back(axis.stride);
    dilations.push_back(axis.dilation);
    pads.push_back(axis.before);
  }
  for (const Window::Axis& axis : window.axes()) pads.push_back(axis.after);
  node.attributes.set("strides", strides);
  node.attributes.set("pads", pads);
  if (node.op.ends_with("Conv"))
    node.attributes.set("dilations", dilations);
  else
    node.attributes.set("kernel", kernel);
}

// The window with padding that completes the last window (ceil_mode); none if that is not
// equivalent.
std::optional<Window> pool_window(const Node& node, const Shape& shape) {
  const bool kept = node.attributes.flag("ceil_mode");
  Window window = read_window(node.attributes, shape, Tensor(),
                              kept ? LastWindow::kept_where_it_begins_inside : LastWindow::dropped);
  for (Window::Axis& axis : window.axes()) {
    const std::int64_t needed =
        (axis.out - 1) * axis.stride + axis.extent() - axis.in - axis.before;
    if (kept && needed > axis.after && node.attributes.flag("count_include_pad")) return {};
    if (kept) axis.after = std::max<std::int64_t>(0, needed);
    if (axis.dilation != 1 || axis.before >= axis.kernel || axis.after >= axis.kernel) return {};
  }
  return window;
}

class ChannelsLast {
 public:
  explicit ChannelsLast(GraphEditor& edit) : edit_(edit) {}

  int run() {
    int changes = 0;
    const std::vector<NodeId> nodes = edit_.nodes();
    for (const NodeId id : nodes) {
      fold_padding(id);
      if (!edit_.removed(id) && is_quantized_conv(edit_, edit_.node(id)))
        quantized_convs_.emplace(id, quantized_conv(edit_, edit_.node(id)));
    }
    for (const NodeId id : nodes)
      if (!edit_.removed(id) && convert(id)) ++changes;
    return changes;
  }

 private:
  // Folds zero padding into the convolution.
  void fold_padding(NodeId id) {
    if (edit_.removed(id) || !is_image_conv(edit_, edit_.node(id))) return;
    const NodeId pad = edit_.producer(edit_.node(id).inputs[0], "Pad");
    const auto edges = pad == kNoNode ? std::nullopt : image_edges(edit_, pad);
    if (!edges) return;
    Node& node = edit_.node(id);
    const Window window = read_window(node.attributes, edit_.type(node.inputs[0]).shape,
                                      edit_.constant(node.inputs[1]));
    Attributes::Integers pads = *edges;
    for (std::size_t i = 0; i < 2; ++i) {
      pads[i] += window.axes()[i].before;
      pads[i + 2] += window.axes()[i].after;
    }
    node.attributes.erase("auto_pad");
    node.attributes.set("pads", pads);
    edit_.set_input(id, 0, edit_.node(pad).inputs[0]);
  }

  bool convert(NodeId id) {
    const Node& node = edit_.node(id);
    if (is_image_conv(edit_, node)) return conv(id);
    if (quantized_convs_.contains(id)) return quantized_image_conv(id);
    if (is_onnx(node, "Reshape")) return shuffle(id);
    if (!std::any_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId value) { return native_.contains(value); }))
      return false;
    if (is_elementwise(edit_, node)) return elementwise(id);
    if (!node.domain.empty()) return false;
    if (node.op == "MaxPool" || node.op == "AveragePool") return pool(id);
    if (node.op == "GlobalAveragePool") return reduce(id, "ReduceMean", true);
    if (node.op == "GlobalMaxPool") return reduce(id, "ReduceMax", true);
    if (node.op == "ReduceMean" || node.op == "ReduceMax") return reduce_image(id);
    if (node.op == "Concat" || node.op == "Split") return along_axis(id);
    return node.op == "Pad" && pad(id);
  }

  // The NHWC form of a value.
  ValueId last(ValueId value) {
    const auto found = last_.find(value);
    if (found != last_.end()) return found->second;
    return last_[value] = transposed(edit_, value, kToLast);
  }

  // Replaces `old` by a node with NHWC outputs.
  void put_last(NodeId old, Node node) {
    const std::vector<ValueId> before = edit_.node(old).outputs;
    node.outputs.clear();
    for (const ValueId value : before) {
      if (value == kNoValue) {
        node.outputs.push_back(kNoValue);
        continue;
      }
      TensorType type = edit_.type(value);
      type.shape = permuted(type.shape, kToLast);
      node.outputs.push_back(edit_.add_value(edit_.graph()[value].name + "/last", type));
      last_[value] = node.outputs.back();
      native_.insert(value);
    }
    const std::vector<ValueId> after = node.outputs;
    edit_.add(std::move(node), old);
    edit_.remove(old);
    for (std::size_t i = 0; i < after.size(); ++i)
      if (after[i] != kNoValue)
        edit_.add(transpose_node(edit_.graph()[before[i]].name + "/first", after[i], before[i],
                                 kToFirst));
  }

  bool conv(NodeId id) {
    const Node old = edit_.node(id);
    Node node = fused("Conv", old.name, old.inputs, {});
    node.inputs[0] = last(old.inputs[0]);
    set_window(node, read_window(old.attributes, edit_.type(old.inputs[0]).shape,
                                 edit_.constant(old.inputs[1])));
    node.attributes.set("group", old.attributes.integer("group", 1));
    put_last(id, std::move(node));
    return true;
  }

  bool quantized_image_conv(NodeId id) {
    const Node old = edit_.node(id);
    Node node = quantized_convs_.at(id);
    node.inputs[0] = last(node.inputs[0]);
    set_window(node, read_window(old.attributes, edit_.type(old.inputs[0]).shape,
                                 edit_.constant(node.inputs[1])));
    put_last(id, std::move(node));
    return true;
  }

  bool pool(NodeId id) {
    const Node old = edit_.node(id);
    const Shape shape = edit_.type(old.inputs[0]).shape;
    if (old.outputs.size() > 1 && old.outputs[1] != kNoValue) return false;
    if (edit_.type(old.outputs[0]).shape.size() == 0) return false;
    const auto window = pool_window(old, shape);
    if (!window) return false;
    Node node = fused(old.op, old.name, {last(old.inputs[0])}, {});
    set_window(node, *window);
    if (old.op == "AveragePool")
      node.attributes.set("count_include_pad", old.attributes.integer("count_include_pad", 0));
    put_last(id, std::move(node));
    return true;
  }

  bool reduce(NodeId id, const char* op, bool keep) {
    const Node old = edit_.node(id);
    Node node{.name = old.name, .op = op, .domain = "", .version = 13};
    node.attributes.set("axes", Attributes::Integers{1, 2});
    node.attributes.set("keepdims", std::int64_t{keep ? 1 : 0});
    node.inputs = {last(old.inputs[0])};
    if (keep) {
      put_last(id, std::move(node));
      return true;
    }
    node.outputs = old.outputs;
    edit_.add(std::move(node), id);
    edit_.remove(id);
    return true;
  }

  bool reduce_image(NodeId id) {
    const Node& node = edit_.node(id);
    auto axes = list_of(edit_, id, 1, "axes");
    if (!axes || axes->size() != 2) return false;
    for (std::int64_t& axis : *axes) axis += axis < 0 ? 4 : 0;
    if (std::min((*axes)[0], (*axes)[1]) != 2 || std::max((*axes)[0], (*axes)[1]) != 3)
      return false;
    return reduce(id, node.op == "ReduceMax" ? "ReduceMax" : "ReduceMean",
                  node.attributes.flag("keepdims", true));
  }

  // An elementwise node whose operands broadcast to four axes.
  bool elementwise(NodeId id) {
    Node node = edit_.node(id);
    if (node.outputs.size() != 1 || edit_.type(node.outputs[0]).shape.rank() != 4) return false;
    const auto is_one = [&](ValueId value) { return edit_.type(value).shape.size() == 1; };
    for (const ValueId value : node.inputs)
      if (value != kNoValue && !is_one(value) && !edit_.constant(value) &&
          edit_.type(value).shape.rank() != 4)
        return false;
    for (ValueId& value : node.inputs) {
      if (value == kNoValue || is_one(value)) continue;
      Shape four = edit_.type(value).shape;
      while (four.rank() < 4) four.insert(0, 1);
      value = last(reshaped(edit_, value, four));
    }
    put_last(id, std::move(node));
    return true;
  }

  bool along_axis(NodeId id) {
    Node node = edit_.node(id);
    if (node.op == "Concat" && node.version < 4) return false;
    node.attributes.set("axis", nhwc_axis(node.attributes.integer("axis", 0)));
    const std::size_t images = node.op == "Concat" ? node.inputs.size() : 1;
    for (std::size_t i = 0; i < images; ++i) node.inputs[i] = last(node.inputs[i]);
    put_last(id, std::move(node));
    return true;
  }

  bool pad(NodeId id) {
    Node node = edit_.node(id);
    const auto pads = list_of(edit_, id, 1, "pads");
    if (!pads || pads->size() != 8 || node.inputs.size() > 3) return false;
    Attributes::Integers nhwc_pads;
    for (const std::size_t side : {0u, 4u})
      for (const int axis : kToLast)
        nhwc_pads.push_back((*pads)[side + static_cast<std::size_t>(axis)]);
    node.inputs[0] = last(node.inputs[0]);
    if (node.inputs.size() > 1)
      node.inputs[1] = edit_.add_constant(node.name + "/pads",
                                          Tensor::of(std::span<const std::int64_t>(nhwc_pads)));
    else
      node.attributes.set("pads", nhwc_pads);
    put_last(id, std::move(node));
    return true;
  }

  // Channel shuffle: Reshape, Transpose, Reshape.
  bool shuffle(NodeId id) {
    const ValueId out = edit_.node(id).outputs[0];
    const NodeId transpose = edit_.producer(edit_.node(id).inputs[0], "Transpose");
    if (transpose == kNoNode || order_of(edit_, transpose) != Order{0, 2, 1, 3, 4}) return false;
    const ValueId table = edit_.node(transpose).inputs[0];
    const NodeId view = edit_.producer(table, "Reshape");
    if (view == kNoNode || !native_.contains(edit_.node(view).inputs[0])) return false;
    const ValueId from = edit_.node(view).inputs[0];
    const Shape s = edit_.type(from).shape, five = edit_.type(table).shape;
    if (edit_.type(out) != edit_.type(from) || five[0] != s[0] || five[1] * five[2] != s[1] ||
        five[3] != s[2])
      return false;
    const ValueId cut = reshaped(edit_, last(from), {s[0], s[2], s[3], five[1], five[2]});
    const ValueId shuffled = transposed(edit_, cut, {0, 1, 2, 4, 3});
    put_last(id, reshape_to(shuffled, {s[0], s[2], s[3], s[1]}, edit_.node(id).name));
    return true;
  }

  Node reshape_to(ValueId from, const Shape& shape, const std::string& name) {
    const ValueId like = edit_.add_value(name + "/shape of", {edit_.type(from).dtype, shape});
    return reshape_node(edit_, name, from, like);
  }

  GraphEditor& edit_;
  std::map<NodeId, Node> quantized_convs_;  // matched before anything is transposed
  std::map<ValueId, ValueId> last_;         // the NHWC form of a value
  std::set<ValueId> native_;                // values that are produced in NHWC
};

}  // namespace

int to_channels_last(GraphEditor& edit) { return ChannelsLast(edit).run(); }

}  // namespace sluice::engine

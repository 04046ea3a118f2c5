#include "engine/shapes/batch_axis_rules.h"

#include <algorithm>

namespace sluice::engine {
namespace {

int positive_axis(std::int64_t axis, int rank) {
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

// `ops`: names surrounded by spaces.
bool is_one_of(std::string_view op, std::string_view ops) {
  return ops.find(" " + std::string(op) + " ") != std::string_view::npos;
}

constexpr std::string_view kElements =
    " Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot "
    "BitwiseOr BitwiseXor Cast Ceil Celu Clip Cos Cosh Div Elu Equal Erf Exp Expand "
    "Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less "
    "LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu "
    "Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Swish Tan "
    "Tanh ThresholdedRelu Where Xor ";
constexpr std::string_view kImages =
    " AveragePool BatchNormalization Conv ConvTranspose DepthToSpace GlobalAveragePool "
    "GlobalLpPool GlobalMaxPool GroupNormalization InstanceNormalization LRN LpPool "
    "MaxPool Resize SpaceToDepth Upsample ";
constexpr std::string_view kLines =
    " Hardmax LayerNormalization LogSoftmax LpNormalization RMSNormalization Softmax ";
constexpr std::string_view kViews = " Flatten Identity Reshape Squeeze Unsqueeze ";

// Axes are counted from the last one, where broadcasting aligns shapes.
bool elements(BatchAxisNode& s) {
  if (s.node.attributes.has("axis")) return false;  // broadcasting before opset 7
  const std::size_t count = s.node.op == "Expand" ? 1 : s.node.inputs.size();
  MaybeBatchAxis from_last;
  for (std::size_t i = 0; i < count; ++i) {
    if (!s.in(i)) continue;
    const BatchAxis mine{s.shape(i).rank() - s.in(i)->axis, s.in(i)->each};
    if (from_last && !(*from_last == mine)) return false;
    from_last = mine;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (s.node.inputs[i] == kNoValue || s.in(i)) continue;
    const Shape given = s.shape(i);
    const int axis = given.rank() - from_last->axis;
    if (axis >= 0 && given[axis] != 1) return false;  // it differs from item to item
  }
  s.out[0] = BatchAxis{s.made().rank() - from_last->axis, from_last->each};
  return true;
}

bool view(BatchAxisNode& s) {
  const Shape from = s.shape(0), to = s.made();
  const std::int64_t before = size_of_axes(from, 0, s.in(0)->axis);
  for (int axis = 0; axis < to.rank(); ++axis)
    if (size_of_axes(to, 0, axis) == before && to[axis] % s.batch == 0) {
      s.out[0] = BatchAxis{axis, to[axis] / s.batch};
      return true;
    }
  return false;
}

bool transpose(BatchAxisNode& s) {
  const int rank = s.shape(0).rank();
  Attributes::Integers order = s.node.attributes.integers("perm");
  for (int i = rank - 1; i >= 0 && static_cast<int>(order.size()) < rank; --i) order.push_back(i);
  const auto found = std::find(order.begin(), order.end(), s.in(0)->axis);
  if (found == order.end()) return false;
  s.out[0] = BatchAxis{static_cast<int>(found - order.begin()), s.in(0)->each};
  return true;
}

bool matmul(BatchAxisNode& s) {
  const Shape a = s.shape(0), b = s.shape(1);
  if (a.rank() < 2 || b.rank() < 2) return false;
  const auto from_last = [&](std::size_t i, int rank) {
    return s.in(i) ? rank - s.in(i)->axis : 0;
  };
  const int left = from_last(0, a.rank()), right = from_last(1, b.rank());
  if (left == 1 || right == 1 || right == 2) return false;  // summed over, or columns
  if (left != 0 && right != 0 && (left != right || s.in(0)->each != s.in(1)->each)) return false;
  const int axis = std::max(left, right);
  const auto differs = [&](const Shape& given) {
    return given.rank() >= axis && given[given.rank() - axis] != 1;
  };
  if (axis > 2 && ((left == 0 && differs(a)) || (right == 0 && differs(b)))) return false;
  s.out[0] = BatchAxis{s.made().rank() - axis, s.in(left != 0 ? 0 : 1)->each};
  return true;
}

bool gemm(BatchAxisNode& s) {
  if (!s.only_first() || s.node.attributes.flag("transA") || s.in(0)->axis != 0) return false;
  if (s.node.inputs.size() > 2 && s.node.inputs[2] != kNoValue) {
    const Shape bias = s.shape(2);
    if (bias.rank() == 2 && bias[0] != 1) return false;
  }
  s.out[0] = s.in(0);
  return true;
}

// Indices of MaxPool are relative to the whole batch; batch norm in training mode mixes items.
bool images(BatchAxisNode& s) {
  const bool more = std::count_if(s.node.outputs.begin(), s.node.outputs.end(),
                                  [](ValueId id) { return id != kNoValue; }) > 1;
  const bool learns = s.node.op == "BatchNormalization" &&
                      (s.node.attributes.flag("training_mode") || s.node.version < 7);
  if (!s.only_first() || s.in(0)->axis != 0 || more || learns) return false;
  s.out[0] = s.in(0);
  return true;
}

bool quantized(BatchAxisNode& s) {
  if (!s.only_first()) return false;
  const Shape given = s.shape(0), scale = s.shape(1);
  const int axis = positive_axis(s.node.attributes.integer("axis", 1), given.rank());
  if (scale.rank() > 1 || (scale.rank() == 1 && scale[0] != 1 && axis == s.in(0)->axis))
    return false;
  s.out[0] = s.in(0);
  return true;
}

// Operators along an axis, or from it on: the batch axis must precede it.
bool lines(BatchAxisNode& s) {
  if (!s.only_first() || s.node.outputs.size() > 1) return false;
  const bool softmax = s.node.op.ends_with("max");
  const std::int64_t default_value = softmax && s.node.version < 13 ? 1 : -1;
  const int axis =
      positive_axis(s.node.attributes.integer("axis", default_value), s.shape(0).rank());
  if (s.in(0)->axis >= axis) return false;
  s.out[0] = s.in(0);
  return true;
}

std::optional<Attributes::Integers> list(const BatchAxisNode& s, std::size_t input,
                                         std::string_view attribute) {
  if (s.node.attributes.has(attribute)) return s.node.attributes.integers(attribute);
  if (input >= s.node.inputs.size() || s.node.inputs[input] == kNoValue) return std::nullopt;
  const Tensor& given = s.graph[s.node.inputs[input]].constant;
  Attributes::Integers numbers;
  if (given.dtype() == DType::i64)
    numbers.assign(given.values<std::int64_t>().begin(), given.values<std::int64_t>().end());
  else if (given.dtype() == DType::i32)
    numbers.assign(given.values<std::int32_t>().begin(), given.values<std::int32_t>().end());
  else
    return std::nullopt;
  return numbers;
}

bool reduce(BatchAxisNode& s) {
  const auto axes = list(s, 1, "axes");
  if (!axes || axes->empty()) return false;
  const BatchAxis from = *s.in(0);
  int before = 0;
  for (const std::int64_t given : *axes) {
    const int axis = positive_axis(given, s.shape(0).rank());
    if (axis == from.axis) return false;
    if (axis < from.axis) ++before;
  }
  const bool kept = s.node.attributes.flag("keepdims", true);
  s.out[0] = BatchAxis{from.axis - (kept ? 0 : before), from.each};
  return true;
}

bool one_axis(BatchAxisNode& s) {
  if (!s.only_first()) return false;
  const bool last = s.node.op == "TopK";
  const BatchAxis from = *s.in(0);
  const int axis =
      positive_axis(s.node.attributes.integer("axis", last ? -1 : 0), s.shape(0).rank());
  if (axis == from.axis) return false;
  const bool gone = s.node.op.starts_with("Arg") && !s.node.attributes.flag("keepdims", true);
  s.out.assign(s.out.size(), BatchAxis{from.axis - (gone && axis < from.axis ? 1 : 0), from.each});
  return true;
}

bool gather(BatchAxisNode& s) {
  const MaybeBatchAxis data = s.in(0), index = s.in(1);
  if (data && index) return false;
  const int axis = positive_axis(s.node.attributes.integer("axis", 0), s.shape(0).rank());
  if (index) {
    s.out[0] = BatchAxis{axis + index->axis, index->each};
    return true;
  }
  if (data->axis == axis) return false;
  const int shift = axis < data->axis ? s.shape(1).rank() - 1 : 0;
  s.out[0] = BatchAxis{data->axis + shift, data->each};
  return true;
}

bool concat(BatchAxisNode& s) {
  const MaybeBatchAxis first = s.in(0);
  const int axis = positive_axis(s.node.attributes.integer("axis", 0), s.shape(0).rank());
  for (std::size_t i = 0; i < s.node.inputs.size(); ++i)
    if (!first || !s.in(i) || !(*s.in(i) == *first) || first->axis == axis) return false;
  s.out[0] = first;
  return true;
}

bool slice(BatchAxisNode& s) {
  if (!s.only_first()) return false;
  const int rank = s.shape(0).rank();
  const auto axes = list(s, 3, "axes");
  if (!axes) return false;  // all of them
  for (const std::int64_t axis : *axes)
    if (positive_axis(axis, rank) == s.in(0)->axis) return false;
  s.out[0] = s.in(0);
  return true;
}

bool pad(BatchAxisNode& s) {
  if (!s.only_first() || (s.node.inputs.size() > 3 && s.node.inputs[3] != kNoValue)) return false;
  const auto pads = list(s, 1, "pads");
  const int rank = s.shape(0).rank();
  const auto axis = static_cast<std::size_t>(s.in(0)->axis);
  if (!pads || pads->size() != static_cast<std::size_t>(2 * rank)) return false;
  if ((*pads)[axis] != 0 || (*pads)[axis + static_cast<std::size_t>(rank)] != 0) return false;
  s.out[0] = s.in(0);
  return true;
}

// [time, batch, ...], or with `layout` [batch, time, ...]; outputs have an additional direction
// axis.
bool recurrent(BatchAxisNode& s) {
  const bool first = s.node.attributes.flag("layout");
  const int axis = first ? 0 : 1;
  const auto lies = [&](std::size_t i, int at) { return s.in(i) && *s.in(i) == BatchAxis{at, 1}; };
  for (std::size_t i = 0; i < s.node.inputs.size(); ++i) {
    if (s.node.inputs[i] == kNoValue) continue;
    const bool state = i == 0 || i == 5 || (i == 6 && s.node.op == "LSTM"), lengths = i == 4;
    if (state ? !lies(i, axis) : lengths ? !lies(i, 0) : s.in(i).has_value()) return false;
  }
  s.out[0] = BatchAxis{first ? 0 : 2, 1};
  for (std::size_t i = 1; i < s.out.size(); ++i) s.out[i] = BatchAxis{axis, 1};
  return true;
}

}  // namespace

std::int64_t size_of_axes(const Shape& shape, int begin, int end) {
  std::int64_t size = 1;
  for (int i = begin; i < end; ++i) size *= shape[i];
  return size;
}

bool propagate_batch_axis(BatchAxisNode& s) {
  const std::string_view op = s.node.op;
  const bool recurs =
      op == "LSTM" || op == "GRU" || op == "RNN";  // may have only the last state as output
  if (s.node.outputs.empty() || (s.node.outputs[0] == kNoValue && !recurs)) return false;
  if (is_one_of(op, kElements)) return elements(s);
  if (is_one_of(op, kViews)) return view(s);
  if (is_one_of(op, kImages)) return images(s);
  if (is_one_of(op, kLines)) return lines(s);
  if (op.starts_with("Reduce")) return reduce(s);
  using Rule = bool (*)(BatchAxisNode&);
  struct Known {
    std::string_view op;
    Rule rule;
  };
  constexpr Known kKnown[] = {{"ArgMax", one_axis},
                              {"ArgMin", one_axis},
                              {"Concat", concat},
                              {"DequantizeLinear", quantized},
                              {"GRU", recurrent},
                              {"Gather", gather},
                              {"Gemm", gemm},
                              {"LSTM", recurrent},
                              {"MatMul", matmul},
                              {"Pad", pad},
                              {"QuantizeLinear", quantized},
                              {"RNN", recurrent},
                              {"Slice", slice},
                              {"Split", one_axis},
                              {"TopK", one_axis},
                              {"Transpose", transpose}};
  const auto* const found = std::find_if(std::begin(kKnown), std::end(kKnown),
                                         [&](const Known& known) { return known.op == op; });
  return found != std::end(kKnown) && found->rule(s);
}

}  // namespace sluice::engine

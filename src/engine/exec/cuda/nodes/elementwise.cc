// Elementwise operators as element programs.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "engine/exec/cuda/nodes/element_kernels.h"
#include "engine/exec/cuda/nodes/node_view.h"

namespace sluice::engine::cuda {
namespace {

using Op = ElementOp;
using Kind = ElementKind;

// Builds the element program of a node.
struct ProgramBuilder {
  NodeView view;
  ElementProgram program{};
  std::vector<ElementInput> inputs{};

  int input(std::size_t i) { return input(i, view.in(i).shape); }
  int input(std::size_t i, const Shape& as) {
    inputs.push_back({i, as});
    return program.input(view.in(i).dtype);
  }
  int number(int like, double value) { return program.constant(program.kind(like), value); }
  int apply(Op op, int a, int b = -1) { return program.apply(op, a, b); }
  float real(std::string_view name, float default_value) const {
    return view.attributes().real(name, default_value);
  }
  int number_of(int like, std::string_view name, float default_value) {
    return number(like, static_cast<double>(real(name, default_value)));
  }
  int below_zero(int x) { return apply(Op::less, x, number(x, 0)); }
  std::unique_ptr<Kernel> done(int value, Context& context) {
    program.result(value, view.out(0).dtype);
    return make_elements(view.node().op, program, inputs, view.out(0).shape, context);
  }
};

bool is_integral(DType type) { return is_integer(type) || type == DType::boolean; }

// Whether element programs support the type of input i.
bool takes(const NodeView& view, std::size_t i) {
  return view.has(i) && is_element_type(view.in(i).dtype);
}

// An operator with one input that is a single instruction.
template <Op kOp>
std::unique_ptr<Kernel> unary(const Graph& graph, const Node& node, Context& context) {
  ProgramBuilder w{NodeView(graph, node)};
  if (!takes(w.view, 0)) return nullptr;
  const int x = w.input(0);
  return w.done(w.apply(kOp, x), context);
}

// An operator with one input that several instructions compute.
template <int (*kCompose)(ProgramBuilder&, int)>
std::unique_ptr<Kernel> composed(const Graph& graph, const Node& node, Context& context) {
  ProgramBuilder w{NodeView(graph, node)};
  if (!takes(w.view, 0)) return nullptr;
  const int x = w.input(0);
  return w.done(kCompose(w, x), context);
}

// Before opset 7 attributes controlled broadcasting: such nodes run on the CPU.
bool uses_numpy_broadcasting(const NodeView& view) {
  return view.version() >= 7 || !view.attributes().flag("broadcast");
}

template <Op kOp, bool kSwapped = false>
std::unique_ptr<Kernel> binary(const Graph& graph, const Node& node, Context& context) {
  ProgramBuilder w{NodeView(graph, node)};
  if (!takes(w.view, 0) || !takes(w.view, 1) || !uses_numpy_broadcasting(w.view) ||
      w.view.in(0).dtype != w.view.in(1).dtype)
    return nullptr;
  const int a = w.input(0), b = w.input(1);
  return w.done(kSwapped ? w.apply(kOp, b, a) : w.apply(kOp, a, b), context);
}

std::unique_ptr<Kernel> modulo(const Graph& graph, const Node& node, Context& context) {
  const NodeView view(graph, node);
  const bool as_c = view.attributes().flag("fmod") || !is_integer(view.in(0).dtype);
  return as_c ? binary<Op::remainder>(graph, node, context)
              : binary<Op::modulo>(graph, node, context);
}

std::unique_ptr<Kernel> bit_shift(const Graph& graph, const Node& node, Context& context) {
  const bool left = node.attributes.string("direction", "") == "LEFT";
  return left ? binary<Op::shift_left>(graph, node, context)
              : binary<Op::shift_right>(graph, node, context);
}

// The exponent may have another type; the result has the base's.
std::unique_ptr<Kernel> power(const Graph& graph, const Node& node, Context& context) {
  ProgramBuilder w{NodeView(graph, node)};
  if (!takes(w.view, 0) || !takes(w.view, 1) || !uses_numpy_broadcasting(w.view)) return nullptr;
  int a = w.input(0), b = w.input(1);
  const bool integral = is_integral(w.view.in(0).dtype);
  const bool integral_exponent = is_integral(w.view.in(1).dtype);
  const Kind kind = integral ? (integral_exponent ? Kind::i64 : Kind::f64) : w.program.kind(a);
  a = w.program.convert(kind, a);
  b = w.program.convert(kind, b);
  return w.done(w.apply(Op::power, a, b), context);
}

// A variadic operator, applied pairwise from the left.
template <Op kOp>
std::unique_ptr<Kernel> variadic(const Graph& graph, const Node& node, Context& context) {
  ProgramBuilder w{NodeView(graph, node)};
  if (!takes(w.view, 0)) return nullptr;
  int all = w.input(0);
  std::vector<int> values{all};
  for (std::size_t i = 1; i < w.view.inputs(); ++i) {
    if (!takes(w.view, i) || w.view.in(i).dtype != w.view.in(0).dtype) return nullptr;
    values.push_back(w.input(i));
  }
  for (std::size_t i = 1; i < values.size(); ++i) all = w.apply(kOp, all, values[i]);
  if (node.op == "Mean")
    all = w.apply(Op::divide, all, w.number(all, static_cast<double>(values.size())));
  return w.done(all, context);
}

std::unique_ptr<Kernel> where(const Graph& graph, const Node& node, Context& context) {
  ProgramBuilder w{NodeView(graph, node)};
  if (!takes(w.view, 0) || !takes(w.view, 1) || !takes(w.view, 2) ||
      w.view.in(1).dtype != w.view.in(2).dtype)
    return nullptr;
  const int test = w.input(0), a = w.input(1), b = w.input(2);
  return w.done(w.program.select(test, a, b), context);
}

std::unique_ptr<Kernel> cast(const Graph& graph, const Node& node, Context& context) {
  ProgramBuilder w{NodeView(graph, node)};
  if (!takes(w.view, 0)) return nullptr;
  return w.done(w.input(0), context);
}

// Bounds are attributes or scalar inputs.
std::unique_ptr<Kernel> clip(const Graph& graph, const Node& node, Context& context) {
  ProgramBuilder w{NodeView(graph, node)};
  if (!takes(w.view, 0)) return nullptr;
  const int x = w.input(0);
  int bounds[2] = {-1, -1};
  for (std::size_t i = 1; i <= 2; ++i)
    if (w.view.has(i)) {
      if (w.view.in(i).dtype != w.view.in(0).dtype || w.view.in(i).shape.size() != 1)
        return nullptr;
      bounds[i - 1] = w.input(i, Shape());
    }
  const Attributes& given = node.attributes;
  if (given.has("min")) bounds[0] = w.number_of(x, "min", 0);
  if (given.has("max")) bounds[1] = w.number_of(x, "max", 0);
  int y = x;
  if (bounds[0] >= 0) y = w.program.select(w.apply(Op::less, y, bounds[0]), bounds[0], y);
  if (bounds[1] >= 0) y = w.program.select(w.apply(Op::less, bounds[1], y), bounds[1], y);
  return w.done(y, context);
}

// The slope is broadcast to the input.
std::unique_ptr<Kernel> prelu(const Graph& graph, const Node& node, Context& context) {
  ProgramBuilder w{NodeView(graph, node)};
  if (!takes(w.view, 0) || !takes(w.view, 1) || w.view.version() < 7 ||
      w.view.in(0).dtype != w.view.in(1).dtype)
    return nullptr;
  const int x = w.input(0), slope = w.input(1);
  return w.done(w.program.select(w.below_zero(x), w.apply(Op::multiply, x, slope), x), context);
}

std::unique_ptr<Kernel> swiglu(const Graph& graph, const Node& node, Context& context) {
  ProgramBuilder w{NodeView(graph, node)};
  if (!takes(w.view, 0) || !takes(w.view, 1) || w.view.in(0).dtype != w.view.in(1).dtype)
    return nullptr;
  const int x = w.input(0), y = w.input(1);
  const int gate = w.apply(Op::sigmoid, w.apply(Op::multiply, w.number_of(x, "alpha", 1), x));
  return w.done(w.apply(Op::multiply, w.apply(Op::multiply, x, gate), y), context);
}

int leaky_relu(ProgramBuilder& w, int x) {
  const int low = w.apply(Op::multiply, w.number_of(x, "alpha", 0.01f), x);
  return w.program.select(w.below_zero(x), low, x);
}
int thresholded_relu(ProgramBuilder& w, int x) {
  const int shut = w.apply(Op::less_or_equal, x, w.number_of(x, "alpha", 1.0f));
  return w.program.select(shut, w.number(x, 0), x);
}
int elu(ProgramBuilder& w, int x) {
  const int low =
      w.apply(Op::multiply, w.number_of(x, "alpha", 1.0f), w.apply(Op::exponential_less_one, x));
  return w.program.select(w.below_zero(x), low, x);
}
int celu(ProgramBuilder& w, int x) {
  const int alpha = w.number_of(x, "alpha", 1.0f), zero = w.number(x, 0);
  const int part = w.apply(Op::exponential_less_one, w.apply(Op::divide, x, alpha));
  const int low = w.apply(Op::minimum, zero, w.apply(Op::multiply, alpha, part));
  return w.apply(Op::add, w.apply(Op::maximum, x, zero), low);
}
int selu(ProgramBuilder& w, int x) {
  const bool first = w.view.version() < 6;
  const int alpha = w.number_of(x, "alpha", first ? 1.6732f : 1.67326319217681884765625f);
  const int gamma = w.number_of(x, "gamma", first ? 1.0507f : 1.05070102214813232421875f);
  const int low = w.apply(Op::multiply, alpha, w.apply(Op::exponential_less_one, x));
  const int above = w.apply(Op::less, w.number(x, 0), x);
  return w.apply(Op::multiply, gamma, w.program.select(above, x, low));
}
int hard_sigmoid(ProgramBuilder& w, int x) {
  const int line = w.apply(Op::add, w.apply(Op::multiply, w.number_of(x, "alpha", 0.2f), x),
                           w.number_of(x, "beta", 0.5f));
  return w.apply(Op::maximum, w.number(x, 0), w.apply(Op::minimum, w.number(x, 1), line));
}
int gelu(ProgramBuilder& w, int x) {
  const bool tanh = w.view.attributes().string("approximate", "none") == "tanh";
  return w.apply(tanh ? Op::gelu_tanh : Op::gelu, x);
}
int swish(ProgramBuilder& w, int x) {
  const int gate = w.apply(Op::sigmoid, w.apply(Op::multiply, w.number_of(x, "alpha", 1), x));
  return w.apply(Op::multiply, x, gate);
}
int shrink(ProgramBuilder& w, int x) {
  const double hard = static_cast<double>(w.real("lambd", 0.5f));
  if (is_integral(w.view.in(0).dtype)) x = w.program.convert(Kind::f64, x);
  const int bias = w.number_of(x, "bias", 0);
  const int below = w.apply(Op::less, x, w.number(x, -hard));
  const int above = w.apply(Op::less, w.number(x, hard), x);
  const int upper = w.program.select(above, w.apply(Op::subtract, x, bias), w.number(x, 0));
  return w.program.select(below, w.apply(Op::add, x, bias), upper);
}
int is_nan(ProgramBuilder& w, int x) { return w.apply(Op::differs, x, x); }
int is_inf(ProgramBuilder& w, int x) {
  const double far = std::numeric_limits<double>::infinity();
  const Attributes& given = w.view.attributes();
  const int plus =
      w.apply(Op::equal, x, w.number(x, given.flag("detect_positive", true) ? far : NAN));
  const int minus =
      w.apply(Op::equal, x, w.number(x, given.flag("detect_negative", true) ? -far : NAN));
  return w.apply(Op::bit_or, plus, minus);
}
int logical_not(ProgramBuilder& w, int x) { return w.apply(Op::equal, x, w.number(x, 0)); }

// (x - mean) * scale / sqrt(variance + epsilon) + bias, by channel.
std::unique_ptr<Kernel> batch_norm(const Graph& graph, const Node& node, Context& context) {
  ProgramBuilder w{NodeView(graph, node)};
  const Shape shape = w.view.in(0).shape;
  const bool trains = w.view.version() >= 14
                          ? node.attributes.flag("training_mode")
                          : w.view.wants(1) || w.view.wants(2) || w.view.wants(3);
  const bool spatial = w.view.version() >= 9 || node.attributes.flag("spatial", true);
  if (trains || !spatial || shape.rank() < 2 || !is_computed_real(w.view.in(0).dtype))
    return nullptr;
  Shape by_channel{shape[1]};
  for (int i = 2; i < shape.rank(); ++i) by_channel.push_back(1);
  const int x = w.input(0);
  int of[5] = {};
  for (std::size_t i = 1; i <= 4; ++i) {
    if (!takes(w.view, i) || !is_float(w.view.in(i).dtype) || w.view.in(i).shape.size() != shape[1])
      return nullptr;
    of[i] = w.input(i, by_channel);
  }
  for (int i = 1; i <= 4; ++i) of[i] = w.program.convert(w.program.kind(x), of[i]);
  const int spread =
      w.apply(Op::square_root, w.apply(Op::add, of[4], w.number_of(x, "epsilon", 1e-5f)));
  const int factor = w.apply(Op::divide, of[1], spread);
  const int centred = w.apply(Op::subtract, x, of[3]);
  return w.done(w.apply(Op::add, w.apply(Op::multiply, centred, factor), of[2]), context);
}

// Scales and zero points are per tensor, or per channel along an axis.
std::optional<Shape> scale_shape(const NodeView& view) {
  const Shape x = view.in(0).shape, scale = view.in(1).shape;
  if (view.attributes().integer("block_size", 0) != 0 || scale.rank() > 1) return std::nullopt;
  if (scale.size() == 1) return Shape();
  const std::int64_t named = view.attributes().integer("axis", 1);
  const int axis = x.rank() == 1 && named == 1 ? 0 : resolve_axis(named, x.rank());
  Shape broadcastable{scale[0]};
  for (int i = axis + 1; i < x.rank(); ++i) broadcastable.push_back(1);
  return broadcastable;
}

std::unique_ptr<Kernel> quantize(const Graph& graph, const Node& node, Context& context) {
  ProgramBuilder w{NodeView(graph, node)};
  const DType to = w.view.out(0).dtype;
  const auto shape = scale_shape(w.view);
  const bool is_8_or_16_bit = is_integer(to) && bits(to) >= 8 && bits(to) <= 16;
  if (!shape || !is_8_or_16_bit || w.view.in(0).dtype != DType::f32 ||
      w.view.in(1).dtype != DType::f32)
    return nullptr;
  const int x = w.input(0), scale = w.input(1, *shape);
  const int zero = w.view.has(2) ? w.input(2, *shape) : -1;
  int y = w.apply(Op::round, w.apply(Op::divide, x, scale));
  if (zero >= 0) y = w.apply(Op::add, y, w.program.convert(Kind::f32, zero));
  const bool is_signed = to == DType::i8 || to == DType::i16;
  const double span = std::ldexp(1.0, bits(to)), min = is_signed ? -span / 2 : 0;
  const int low = w.number(y, min), high = w.number(y, min + span - 1);
  y = w.program.select(w.apply(Op::less, y, low), low, y);
  y = w.program.select(w.apply(Op::less, high, y), high, y);
  return w.done(w.program.select(w.apply(Op::differs, y, y), w.number(y, 0), y), context);
}

std::unique_ptr<Kernel> dequantize(const Graph& graph, const Node& node, Context& context) {
  ProgramBuilder w{NodeView(graph, node)};
  const auto shape = scale_shape(w.view);
  if (!shape || !is_integer(w.view.in(0).dtype) || !takes(w.view, 0) ||
      !is_computed_real(w.view.in(1).dtype))
    return nullptr;
  const int x = w.input(0), scale = w.input(1, *shape);
  const int zero = w.view.has(2) ? w.input(2, *shape) : -1;
  const int centred = zero >= 0 ? w.apply(Op::subtract, x, zero) : x;
  return w.done(w.apply(Op::multiply, w.program.convert(Kind::f32, centred), scale), context);
}

// Dropout at inference is the identity.
std::unique_ptr<Kernel> dropout(const Graph& graph, const Node& node, Context& context) {
  const NodeView view(graph, node);
  const Tensor training = view.constant(2);
  const bool may_train =
      view.has(2) && (!training || training.size() != 1 || training.values<bool>()[0]);
  return may_train || view.wants(1) || view.version() < 7 ? nullptr : cast(graph, node, context);
}

constexpr Maker kElementwiseMakers[] = {
    {"Abs", "", unary<Op::absolute>},
    {"Acos", "", unary<Op::arc_cosine>},
    {"Acosh", "", unary<Op::area_cosine>},
    {"Add", "", binary<Op::add>},
    {"And", "", binary<Op::bit_and>},
    {"Asin", "", unary<Op::arc_sine>},
    {"Asinh", "", unary<Op::area_sine>},
    {"Atan", "", unary<Op::arc_tangent>},
    {"Atanh", "", unary<Op::area_tangent>},
    {"BatchNormalization", "", batch_norm},
    {"BitShift", "", bit_shift},
    {"BitwiseAnd", "", binary<Op::bit_and>},
    {"BitwiseNot", "", unary<Op::bit_not>},
    {"BitwiseOr", "", binary<Op::bit_or>},
    {"BitwiseXor", "", binary<Op::bit_xor>},
    {"Cast", "", cast},
    {"CastLike", "", cast},
    {"Ceil", "", unary<Op::ceil>},
    {"Celu", "", composed<celu>},
    {"Clip", "", clip},
    {"Cos", "", unary<Op::cosine>},
    {"Cosh", "", unary<Op::hyperbolic_cosine>},
    {"DequantizeLinear", "", dequantize},
    {"Div", "", binary<Op::divide>},
    {"Dropout", "", dropout},
    {"Elu", "", composed<elu>},
    {"Equal", "", binary<Op::equal>},
    {"Erf", "", unary<Op::error_function>},
    {"Exp", "", unary<Op::exponential>},
    {"Floor", "", unary<Op::floor>},
    {"Gelu", "", composed<gelu>},
    {"Greater", "", binary<Op::less, true>},
    {"GreaterOrEqual", "", binary<Op::less_or_equal, true>},
    {"HardSigmoid", "", composed<hard_sigmoid>},
    {"HardSwish", "", unary<Op::hard_swish>},
    {"IsInf", "", composed<is_inf>},
    {"IsNaN", "", composed<is_nan>},
    {"LeakyRelu", "", composed<leaky_relu>},
    {"Less", "", binary<Op::less>},
    {"LessOrEqual", "", binary<Op::less_or_equal>},
    {"Log", "", unary<Op::logarithm>},
    {"Max", "", variadic<Op::maximum>},
    {"Mean", "", variadic<Op::add>},
    {"Min", "", variadic<Op::minimum>},
    {"Mish", "", unary<Op::mish>},
    {"Mod", "", modulo},
    {"Mul", "", binary<Op::multiply>},
    {"Neg", "", unary<Op::negate>},
    {"Not", "", composed<logical_not>},
    {"Or", "", binary<Op::bit_or>},
    {"PRelu", "", prelu},
    {"Pow", "", power},
    {"QuantizeLinear", "", quantize},
    {"Reciprocal", "", unary<Op::reciprocal>},
    {"Relu", "", unary<Op::relu>},
    {"Round", "", unary<Op::round>},
    {"Selu", "", composed<selu>},
    {"Shrink", "", composed<shrink>},
    {"Sigmoid", "", unary<Op::sigmoid>},
    {"Sign", "", unary<Op::sign>},
    {"Sin", "", unary<Op::sine>},
    {"Sinh", "", unary<Op::hyperbolic_sine>},
    {"Softplus", "", unary<Op::softplus>},
    {"Softsign", "", unary<Op::softsign>},
    {"Sqrt", "", unary<Op::square_root>},
    {"Sub", "", binary<Op::subtract>},
    {"Sum", "", variadic<Op::add>},
    {"SwiGLU", "", swiglu},
    {"Swish", "", composed<swish>},
    {"Tan", "", unary<Op::tangent>},
    {"Tanh", "", unary<Op::tanh>},
    {"ThresholdedRelu", "", composed<thresholded_relu>},
    {"Where", "", where},
    {"Xor", "", binary<Op::bit_xor>},
};

}  // namespace

std::span<const Maker> elementwise_kernels() { return kElementwiseMakers; }

}  // namespace sluice::engine::cuda

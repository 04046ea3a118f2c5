// Constants, Shape, Size and views.
#include "engine/graph/sparse.h"
#include "engine/ops/axes.h"
#include "engine/ops/families.h"
#include "engine/ops/moves.h"

namespace sluice::engine {
namespace {

void constant(OpCall& call) {
  const Attributes& a = call.attributes();
  if (const auto* value = a.find<Tensor>("value")) return call.set_output(0, *value);
  if (const auto* value = a.find<onnx::SparseTensor>("sparse_value"))
    return call.set_output(0, dense(*value));
  if (const auto* value = a.find<float>("value_float"))
    return call.set_output(0, Tensor::of(*value));
  if (const auto* value = a.find<std::int64_t>("value_int"))
    return call.set_output(0, Tensor::of(*value));
  if (const auto* value = a.find<std::string>("value_string"))
    return call.set_output(0, Tensor::of(*value));
  if (const auto* list = a.find<Attributes::Reals>("value_floats"))
    return call.set_output(0, Tensor::of(std::span<const float>(*list)));
  if (const auto* list = a.find<Attributes::Integers>("value_ints"))
    return call.set_output(0, Tensor::of(std::span<const std::int64_t>(*list)));
  if (const auto* list = a.find<Attributes::Strings>("value_strings"))
    return call.set_output(0, Tensor::of(std::span<const std::string>(*list)));
  throw Error(Code::invalid_argument, "a constant without a value");
}

void constant_of_shape(OpCall& call) {
  const Shape shape = checked_shape(call.integers(0));
  Tensor value = call.attributes().tensor("value");
  if (!value) value = Tensor::of(0.0f);
  require(value.size() == 1, "the value must be one element");
  fill(call.output(0, value.dtype(), shape), value);
}

// Since opset 15 Shape may return a range of the dimensions.
void shape_of(OpCall& call) {
  const Shape& shape = call.input(0).shape();
  const auto bound = [&](std::string_view name, std::int64_t default_value) {
    const std::int64_t given = call.attributes().integer(name, default_value);
    return std::clamp<std::int64_t>(given < 0 ? given + shape.rank() : given, 0, shape.rank());
  };
  const std::int64_t begin = bound("start", 0), end = bound("end", shape.rank());
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(0, end - begin));
  call.set_output(0, Tensor::of(shape.dims().subspan(static_cast<std::size_t>(begin), count)));
}

void size_of(OpCall& call) { call.set_output(0, Tensor::of(call.input(0).size())); }

void identity(OpCall& call) { call.set_output(0, call.has(0) ? call.datum(0) : Datum()); }

Shape reshape_to(const Shape& from, std::span<const std::int64_t> requested, bool zero_is_zero) {
  Shape shape(requested);
  int open = -1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 0 && !zero_is_zero) {
      require(i < from.rank(), "dimension " + std::to_string(i) + " is to be kept, and " +
                                   to_string(from) + " has none such");
      shape[i] = from[i];
    } else if (shape[i] == -1) {
      require(open < 0, "two dimensions of -1");
      open = i;
      shape[i] = 1;
    }
  }
  const std::int64_t known = checked_size(shape.dims());
  if (open >= 0 && known > 0 && from.size() % known == 0) shape[open] = from.size() / known;
  require(shape.size() == from.size() && (open < 0 || known > 0),
          "shape " + to_string(from) + " cannot become " + to_string(Shape(requested)));
  return shape;
}

void reshape(OpCall& call) {
  const Tensor& data = call.input(0);
  const auto requested = list_of(call, 1, "shape");
  require(requested.has_value(), "the shape is missing");
  call.set_output(
      0, data.reshaped(reshape_to(data.shape(), *requested, call.attributes().flag("allowzero"))));
}

void flatten(OpCall& call) {
  const Tensor& data = call.input(0);
  const int rank = data.rank();
  std::int64_t axis = call.attributes().integer("axis", 1);
  require(axis >= -rank && axis <= rank, "axis " + std::to_string(axis) + " of a tensor with " +
                                             std::to_string(rank) + " dimensions");
  if (axis < 0) axis += rank;
  const auto cut = static_cast<int>(axis);
  call.set_output(0, data.reshaped(Shape{data.shape().size(0, cut), data.shape().size(cut, rank)}));
}

void squeeze(OpCall& call) {
  const Tensor& data = call.input(0);
  const auto requested = list_of(call, 1, "axes");
  std::vector<int> axes;
  if (requested) {
    axes = resolve_axes(*requested, data.rank());
  } else {
    for (int i = 0; i < data.rank(); ++i)
      if (data.shape()[i] == 1) axes.push_back(i);
  }
  std::sort(axes.rbegin(), axes.rend());
  Shape shape = data.shape();
  for (const int axis : axes) {
    require(shape[axis] == 1,
            "axis " + std::to_string(axis) + " has " + std::to_string(shape[axis]) + " elements");
    shape.erase(axis);
  }
  call.set_output(0, data.reshaped(shape));
}

void unsqueeze(OpCall& call) {
  const Tensor& data = call.input(0);
  const auto requested = list_of(call, 1, "axes");
  require(requested.has_value(), "the axes are missing");
  require(requested->size() <= static_cast<std::size_t>(kMaxDims - data.rank()),
          "a tensor has at most 16 dimensions");
  std::vector<int> axes =
      resolve_axes(*requested, data.rank() + static_cast<int>(requested->size()));
  std::sort(axes.begin(), axes.end());
  Shape shape = data.shape();
  for (const int axis : axes) shape.insert(axis, 1);
  call.set_output(0, data.reshaped(shape));
}

constexpr Op kShapeOps[] = {
    {"Constant", 1, kAnyType, constant},   {"ConstantOfShape", 9, {DType::i64}, constant_of_shape},
    {"Shape", 1, kAnyType, shape_of},      {"Size", 1, kAnyType, size_of},
    {"Identity", 1, kAnyType, identity},   {"Reshape", 1, kAnyType, reshape},
    {"Flatten", 1, kAnyType, flatten},     {"Squeeze", 1, kAnyType, squeeze},
    {"Unsqueeze", 1, kAnyType, unsqueeze},
};

}  // namespace

std::span<const Op> shape_ops() { return kShapeOps; }

}  // namespace sluice::engine

// Gather, GatherElements, GatherND, Compress, NonZero, ArrayFeatureExtractor.
#include "engine/ops/axes.h"
#include "engine/ops/families.h"
#include "engine/ops/moves.h"
#include "engine/ops/tensor/gather_indices.h"

namespace sluice::engine {
namespace {

// The indices of an input, non-negative and checked.
std::vector<std::int64_t> indices_of(const OpCall& call, std::size_t input, std::int64_t size) {
  std::vector<std::int64_t> indices = call.integers(input);
  for (std::int64_t& index : indices) index = resolve_index(index, size);
  return indices;
}

void gather(OpCall& call) {
  const Tensor& data = call.input(0);
  const int axis = resolve_axis(call.attributes().integer("axis", 0), data.rank());
  const std::vector<std::int64_t> indices = indices_of(call, 1, data.shape()[axis]);
  Shape shape = data.shape();
  shape.erase(axis);
  for (int i = call.input(1).rank() - 1; i >= 0; --i) shape.insert(axis, call.input(1).shape()[i]);
  call.declare_output(0, data.dtype(), shape);
  call.set_output(0, gathered(data, axis, indices, call.workers).reshaped(shape));
}

void gather_elements(OpCall& call) {
  const Tensor& data = call.input(0);
  const int axis = resolve_axis(call.attributes().integer("axis", 0), data.rank());
  const Tensor out = call.output(0, data.dtype(), call.input(1).shape());
  gather_blocks(data, out, gather_offsets(call, 1, data.shape(), axis), 1, call.workers);
}

void gather_nd(OpCall& call) {
  const Tensor& data = call.input(0);
  const Shape& from = data.shape();
  const std::int64_t batch_dims = call.attributes().integer("batch_dims", 0);
  require(batch_dims >= 0 && batch_dims < std::min(data.rank(), call.input(1).rank()),
          std::to_string(batch_dims) + " batch dimensions");
  const GatherNdOffsets found = gather_nd_offsets(call, 1, from, static_cast<int>(batch_dims));
  Shape shape = found.tuples;
  for (int i = found.used; i < from.rank(); ++i) shape.push_back(from[i]);
  const Tensor out = call.output(0, data.dtype(), checked_shape(shape.dims()));
  gather_blocks(data, out, found.offsets, from.size(found.used, from.rank()), call.workers);
}

void compress(OpCall& call) {
  Tensor data = call.input(0);
  const Tensor& condition = call.input(1);
  require(condition.dtype() == DType::boolean && condition.rank() == 1,
          "the condition is a list of booleans");
  int axis = 0;
  if (call.attributes().has("axis"))
    axis = resolve_axis(call.attributes().integer("axis"), data.rank());
  else
    data = data.reshaped(Shape{data.size()});
  std::vector<std::int64_t> chosen;
  const auto flags = condition.values<bool>();
  for (std::size_t i = 0; i < flags.size(); ++i)
    if (flags[i]) chosen.push_back(resolve_index(static_cast<std::int64_t>(i), data.shape()[axis]));
  call.set_output(0, gathered(data, axis, chosen, call.workers));
}

template <class T>
bool is_zero(const T& value) {
  if constexpr (std::is_same_v<T, std::string>)
    return value.empty();
  else
    return static_cast<Wide<T>>(value) == Wide<T>(0);
}

void non_zero(OpCall& call) {
  const Tensor& data = call.input(0);
  std::vector<std::int64_t> found;
  visit_types<float, double, Half, BFloat16, std::int8_t, std::int16_t, std::int32_t, std::int64_t,
              std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, bool, std::string>(
      data.dtype(), [&]<class T>() {
        const auto values = data.values<T>();
        for (std::size_t i = 0; i < values.size(); ++i)
          if (!is_zero<T>(values[i])) found.push_back(static_cast<std::int64_t>(i));
      });
  const Shape shape =
      data.rank() == 0 ? Shape{1} : data.shape();  // a scalar is treated as a list of one
  const auto count = static_cast<std::int64_t>(found.size());
  const auto out = call.output(0, DType::i64, {shape.rank(), count}).values<std::int64_t>();
  const Strides steps = strides_of(shape);
  for (int axis = 0; axis < shape.rank(); ++axis)
    for (std::size_t i = 0; i < found.size(); ++i)
      out[static_cast<std::size_t>(axis) * found.size() + i] =
          found[i] / at(steps, axis) % shape[axis];
}

// Gathers columns of the last axis.
void array_feature_extractor(OpCall& call) {
  const Tensor& data = call.input(0);
  require(data.rank() >= 1, "the data is a scalar");
  const int axis = data.rank() - 1;
  const Tensor out = gathered(data, axis, indices_of(call, 1, data.shape()[axis]), call.workers);
  call.set_output(0, data.rank() == 1 ? out.reshaped(Shape{1, out.size()}) : out);
}

constexpr Op kGatherOps[] = {
    {"Gather", 1, kAnyType, gather},
    {"GatherElements", 11, kAnyType, gather_elements},
    {"GatherND", 11, kAnyType, gather_nd},
    {"Compress", 9, kAnyType, compress},
    {"NonZero", 9, kNumbers | Types{DType::boolean, DType::string}, non_zero},
    {"ArrayFeatureExtractor", 1, kNumbers | Types{DType::string}, array_feature_extractor,
     kMlDomain},
};

}  // namespace

std::span<const Op> gather_ops() { return kGatherOps; }

}  // namespace sluice::engine

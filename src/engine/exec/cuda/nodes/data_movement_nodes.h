// Helpers for the makers of data movement kernels.
#pragma once

#include "engine/exec/cuda/nodes/node_view.h"
#include "kernels/data_movement/data_movement.h"

namespace sluice::engine::cuda {

inline std::vector<std::int64_t> strides_of(const Shape& shape) {
  std::vector<std::int64_t> strides(static_cast<std::size_t>(shape.rank()), 1);
  for (std::size_t i = strides.size(); i-- > 1;)
    strides[i - 1] = strides[i] * shape[static_cast<int>(i)];
  return strides;
}

// Whether the kernels support the element type and the number of elements.
inline bool is_copyable(const TensorType& type) {
  return bytes(type.dtype) > 0 && type.shape.size() < std::int64_t{1} << 31;
}
inline int width_of(const TensorType& type) { return static_cast<int>(bytes(type.dtype)); }

// A strided copy of input 0 to output 0.
inline std::unique_ptr<Kernel> strided_copy(std::string name, std::vector<CopyAxis> axes,
                                            std::int64_t from_first, int width) {
  StridedCopyCall plan;
  if (!plan_strided_copy(std::move(axes), from_first, 0, width, plan)) return nullptr;
  if (plan.total == 0) return nothing_to_do();
  return launched(
      std::move(name),
      [plan](const KernelArgs& args) {
        StridedCopyCall now = plan;
        now.from = args.inputs[0];
        now.to = args.outputs[0];
        run_strided_copy(now, args);
      },
      1u);
}

inline std::optional<NumberType> number_type(DType type) {
  switch (type) {
    case DType::f32: return NumberType::f32;
    case DType::f16: return NumberType::f16;
    case DType::bf16: return NumberType::bf16;
    case DType::i32: return NumberType::i32;
    case DType::i64: return NumberType::i64;
    default: return std::nullopt;
  }
}

}  // namespace sluice::engine::cuda

// The element types that are computed with as float.
#pragma once

namespace sluice::kernels::cuda {

enum class RealType { f32, f16, bf16 };

}  // namespace sluice::kernels::cuda

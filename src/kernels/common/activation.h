// The activation functions of epilogues and elementwise chains. Includes nothing: CUDA sources use
// it.
#pragma once

namespace sluice::kernels {

enum class Activation { none, relu, gelu, gelu_tanh, tanh, sigmoid, silu, hard_swish, clip };

}  // namespace sluice::kernels

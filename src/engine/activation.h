// What an epilogue or a chain applies to each element. Without other headers, for CUDA's sources.
#pragma once

namespace sluice::engine {

enum class Activation { none, relu, gelu, gelu_tanh, tanh, sigmoid, silu, hard_swish, clip };

}  // namespace sluice::engine

// The CPU's kernels. A file for each family gives a list of makers; a node that none of them
// takes runs by its operator in ops/.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "compute/workers.h"
#include "engine/exec/kernel.h"
#include "engine/graph/made_tensors.h"
#include "engine/graph/tensor_type.h"

namespace sluice::kernels::cpu {}

namespace sluice::engine::cpu {

using namespace kernels::cpu;  // this backend binds them to nodes

// What the kernels of one session share: cores, and weights in the order that kernels read.
class Context {
 public:
  explicit Context(compute::Workers& on) : workers(on) {}

  compute::Workers& workers;

  // A constant in the order that a kernel reads it: `type` is what the kernel will read. `make` is
  // called once for each constant and way, or never where a plan file has brought the result
  // along; so `way` says all that it depends on besides the constant and its shape: "panels 16".
  // It is kept as MadeTensors does. Throws invalid_argument where a plan brought something of
  // another type or size.
  Tensor packed(const Tensor& constant, const std::string& way, const TensorType& type,
                const std::function<Tensor()>& make);

  // All there are now, to be written to a plan; and what a plan has brought.
  struct Packed {
    Tensor constant;
    std::string way;
    Tensor result;
  };
  std::vector<Packed> all_packed() const;
  void bring(Packed packed);

 private:
  mutable Mutex mutex_;
  MadeTensors<std::pair<const void*, std::string>, Packed> packed_ GUARDED_BY(mutex_);
};

// Null where it does not take this node: another type, an odd shape.
using Make = std::unique_ptr<Kernel> (*)(const Graph& graph, const Node& node, Context& context);

struct Maker {
  std::string_view op, domain;
  Make make;
};

std::span<const Maker> linear_kernels();     // products with weights
std::span<const Maker> conv_kernels();       // convolutions and pools
std::span<const Maker> int8_kernels();       // both of bytes; QuantizeLinear, DequantizeLinear
std::span<const Maker> fp8_kernels();        // products of fp8; QuantizeLinear, DequantizeLinear
std::span<const Maker> norm_kernels();       // Norm, LayerNormalization, Softmax
std::span<const Maker> attention_kernels();  // Attention
std::span<const Maker> chain_kernels();      // Chain, and elementwise operators alone
std::span<const Maker> recurrent_kernels();  // LSTM, GRU, RNN
std::span<const Maker> move_kernels();       // Transpose, Concat, Split, Gather

// Never null: the operator itself where there is nothing better. Throws unavailable where
// there is no such operator, or a value holds strings.
std::unique_ptr<Kernel> make_kernel(const Graph& graph, const Node& node, Context& context);

}  // namespace sluice::engine::cpu

// The CPU backend. Each operator family has a file with a list of kernel makers; a node that no
// maker accepts runs by its reference operator in ops/.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "compute/workers.h"
#include "engine/exec/cpu/arena_pool.h"
#include "engine/exec/kernel.h"
#include "engine/exec/packed_constant.h"
#include "engine/graph/tensor_cache.h"
#include "engine/graph/tensor_type.h"

namespace sluice::kernels::cpu {}

namespace sluice::engine::cpu {

using namespace kernels::cpu;  // this backend binds them to nodes

// What the programs of one session share: threads, packed weights and arenas.
class Context {
 public:
  // `share`: the arenas of others on the same device; none: its own.
  explicit Context(compute::Workers& on, std::shared_ptr<ArenaPool> share = nullptr)
      : workers(on), arenas(share ? std::move(share) : std::make_shared<ArenaPool>()) {}

  compute::Workers& workers;
  const std::shared_ptr<ArenaPool> arenas;

  // A constant in the layout that a kernel reads, of `type`. `make` is called once for each
  // constant and layout, or never if a plan stored the result; so `layout` names everything that
  // the result depends on besides the constant and its shape: "panels 16". See TensorCache for its
  // lifetime. Throws invalid_argument if the plan's data has another type or size.
  Tensor packed(const Tensor& constant, const std::string& layout, const TensorType& type,
                const std::function<Tensor()>& make);

  // All packed weights, to be written to a plan; and those that a plan stored.
  using Packed = PackedConstant;
  std::vector<Packed> all_packed() const;
  void restore(Packed packed);

 private:
  mutable Mutex mutex_;
  TensorCache<std::pair<const void*, std::string>, Packed> packed_ GUARDED_BY(mutex_);
};

// Null if it does not support the node, for its types or shapes.
using Make = std::unique_ptr<Kernel> (*)(const Graph& graph, const Node& node, Context& context);

struct Maker {
  std::string_view op, domain;
  Make make;
};

std::span<const Maker> linear_kernels();         // Linear, MatMul
std::span<const Maker> conv_kernels();           // convolutions and pools
std::span<const Maker> int8_kernels();           // int8 Linear and Conv; (De)QuantizeLinear
std::span<const Maker> fp8_kernels();            // fp8 Linear; (De)QuantizeLinear
std::span<const Maker> norm_kernels();           // Norm, LayerNormalization, Softmax
std::span<const Maker> attention_kernels();      // Attention
std::span<const Maker> token_kernels();          // PoolTokens
std::span<const Maker> chain_kernels();          // Chain, and single elementwise operators
std::span<const Maker> rnn_kernels();            // LSTM, GRU, RNN
std::span<const Maker> data_movement_kernels();  // Transpose, Concat, Split, Gather

// Never null: falls back to the reference operator. Throws unavailable if there is no such operator
// or a value holds strings.
std::unique_ptr<Kernel> make_kernel(const Graph& graph, const Node& node, Context& context);

}  // namespace sluice::engine::cpu

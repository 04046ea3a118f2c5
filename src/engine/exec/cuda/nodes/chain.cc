// A fused chain of elementwise operators as one kernel.
#include "engine/exec/cuda/nodes/element_kernels.h"
#include "engine/exec/cuda/nodes/node_view.h"
#include "engine/graph/fused_ops.h"
#include "engine/graph/graph_editor.h"

namespace sluice::engine::cuda {
namespace {

// Appends an operator of the chain; false if element programs do not have it.
bool append(ElementProgram& program, const Chain::Instruction& instruction, ElementKind kind) {
  if (instruction.op == Chain::Op::constant) {
    program.constant(kind, static_cast<double>(instruction.value));
    return true;
  }
  ElementOp op{};
  if (!find_op(Chain::name(instruction.op), op)) return false;
  program.apply(op, instruction.a, instruction.b);
  return true;
}

std::unique_ptr<Kernel> make_chain(const Graph& graph, const Node& node, Context& context) {
  const NodeView view(graph, node);
  const Chain chain = chain_of(node.attributes, view.inputs());
  const DType type = view.in(0).dtype;
  if (!is_computed_real(type) && type != DType::f64) return nullptr;
  ElementProgram program;
  std::vector<ElementInput> inputs;
  for (std::size_t i = 0; i < view.inputs(); ++i) {
    if (!view.has(i) || view.in(i).dtype != type) return nullptr;
    program.input(type);
    inputs.push_back({i, view.in(i).shape});
  }
  for (const Chain::Instruction& instruction : chain.instructions)
    if (!append(program, instruction, kind_of(type))) return nullptr;
  program.result(program.values() - 1, type);
  return make_elements("elementwise chain of " + std::to_string(chain.instructions.size()), program,
                       inputs, view.out(0).shape, context);
}

constexpr Maker kChainMakers[] = {{"Chain", kFused, make_chain}};

}  // namespace

std::span<const Maker> chain_kernels() { return kChainMakers; }

}  // namespace sluice::engine::cuda

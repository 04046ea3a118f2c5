// Fuses residual additions: before a Norm, or after a Linear.
#include "engine/passes/match.h"
#include "engine/passes/passes.h"
#include "engine/passes/quantized.h"

namespace sluice::engine {
namespace {

bool is_plain_sum(const GraphEditor& edit, const Node& node) {
  if (!is_onnx(node, "Add")) return false;
  const TensorType type = edit.type(node.outputs[0]);
  return is_fusable(type.dtype) && edit.type(node.inputs[0]) == type &&
         edit.type(node.inputs[1]) == type;
}

bool into_norm(GraphEditor& edit, NodeId sum) {
  const NodeId norm = edit.only_user(edit.node(sum).outputs[0]);
  if (norm == kNoNode || edit.node(norm).op != "Norm" || edit.node(norm).domain != kFused ||
      edit.node(norm).inputs[1] != kNoValue ||
      edit.node(norm).inputs[0] != edit.node(sum).outputs[0])
    return false;
  const std::vector<ValueId> inputs = edit.node(sum).inputs;
  edit.set_input(norm, 0, inputs[0]);
  edit.set_input(norm, 1, inputs[1]);
  remove_dead_node(edit, sum);
  return true;
}

bool has_residual(const Node& node) { return node.inputs.size() > 3 && node.inputs[3] != kNoValue; }

bool into_linear(GraphEditor& edit, NodeId sum) {
  for (const ValueId value : std::vector<ValueId>(edit.node(sum).inputs)) {
    const NodeId linear = edit.producer(value);
    if (linear == kNoNode || !is_fused_or_quantized(edit.node(linear), "Linear") ||
        !edit.used_once(value) || has_residual(edit.node(linear)))
      continue;
    put_input(edit, linear, 3, other_input(edit.node(sum), value));
    edit.set_output(linear, edit.node(sum).outputs[0]);
    remove_dead_node(edit, sum);
    return true;
  }
  return false;
}

}  // namespace

int fuse_residuals(GraphEditor& edit) {
  int changes = 0;
  for (const NodeId id : edit.nodes())
    if (!edit.removed(id) && is_plain_sum(edit, edit.node(id)) &&
        (into_norm(edit, id) || into_linear(edit, id)))
      ++changes;
  return changes;
}

}  // namespace sluice::engine

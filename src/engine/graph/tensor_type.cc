#include "engine/graph/tensor_type.h"

namespace sluice::engine {

bool is_random(const Node& node) {
  return node.op.starts_with("Random") || node.op == "Bernoulli" || node.op == "Multinomial" ||
         node.op == "Dropout";
}

TensorType type_of(const Value& value) {
  TensorType type{value.dtype, {}};
  if (value.constant) return {value.constant.dtype(), value.constant.shape()};
  for (const Dim& dim : value.dims.value()) type.shape.push_back(dim.size);
  return type;
}

bool is_view(const Node& node) {
  return node.domain.empty() &&
         (node.op == "Reshape" || node.op == "Flatten" || node.op == "Squeeze" ||
          node.op == "Unsqueeze" || node.op == "Identity");
}

}  // namespace sluice::engine

#include "engine/exec/cuda/nodes/node_view.h"

#include "engine/ops/convert.h"

namespace sluice::engine::cuda {

std::optional<std::vector<std::int64_t>> NodeView::integers(std::size_t i) const {
  const Tensor tensor = constant(i);
  if (tensor.dtype() != DType::i64 && tensor.dtype() != DType::i32) return std::nullopt;
  const Tensor wide = converted(tensor, DType::i64);
  const auto values = wide.values<std::int64_t>();
  return std::vector<std::int64_t>(values.begin(), values.end());
}

std::optional<double> NodeView::number(std::size_t i) const {
  const Tensor tensor = constant(i);
  if (!tensor || tensor.size() != 1 || !(is_float(tensor.dtype()) || is_integer(tensor.dtype())))
    return std::nullopt;
  return converted(tensor, DType::f64).values<double>()[0];
}

std::optional<std::vector<std::int64_t>> NodeView::list(std::size_t input,
                                                        std::string_view attribute) const {
  if (has(input)) return integers(input);
  if (attributes().has(attribute)) return attributes().integers(attribute);
  return std::nullopt;
}

}  // namespace sluice::engine::cuda

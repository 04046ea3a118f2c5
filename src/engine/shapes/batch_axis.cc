// Propagates the batch axis from value to value.
#include "engine/shapes/batch_axis.h"

#include <algorithm>
#include <cstring>

#include "engine/shapes/batch_axis_rules.h"
#include "engine/shapes/specialize.h"
#include "tensor/byte_size.h"

namespace sluice::engine {
namespace {

// Two batch sizes of which no other size is likely to be a multiple.
constexpr std::int64_t kMore = 97, kFewer = 89;

bool same_bytes(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  if (a.data() == b.data() || a.bytes() == 0) return true;
  return a.dtype() != DType::string && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

class BatchAxisPropagation {
 public:
  BatchAxisPropagation(const Graph& more, const Graph& fewer)
      : more_(more), fewer_(fewer), axes_(more.values.size()) {}

  bool run(const BatchInputs& batch) {
    if (more_.nodes.size() != fewer_.nodes.size()) return false;
    for (std::size_t i = 0; i < batch.inputs.size(); ++i)
      if (batch.inputs[i]) at(more_.inputs[i]) = BatchAxis{};
    for (std::size_t i = 0; i < more_.nodes.size(); ++i)
      if (more_.nodes[i].outputs != fewer_.nodes[i].outputs || !step(more_.nodes[i])) return false;
    return std::all_of(more_.outputs.begin(), more_.outputs.end(), [&](ValueId id) {
      return constant_or(id) && at(id) && at(id)->axis == 0 && more_[id].dtype != DType::string;
    });
  }

 private:
  MaybeBatchAxis& at(ValueId id) { return axes_[static_cast<std::size_t>(id)]; }

  // A constant must be the same for any batch size, or repeat the same item.
  bool constant_or(ValueId id) {
    const Tensor &more = more_[id].constant, &fewer = fewer_[id].constant;
    if (!more && !fewer) return true;
    if (!more || !fewer) return false;
    return same_bytes(more, fewer) || repeats(id, more, fewer);
  }
  bool repeats(ValueId id, const Tensor& more, const Tensor& fewer);

  // All dimensions besides the batch axis must be independent of the batch size.
  bool fits(ValueId id) {
    const Shape a = type_of(more_[id]).shape, b = type_of(fewer_[id]).shape;
    if (a.rank() != b.rank()) return false;
    for (int i = 0; i < a.rank(); ++i) {
      const bool here = at(id) && at(id)->axis == i;
      if (here ? a[i] != kMore * at(id)->each || b[i] != kFewer * at(id)->each : a[i] != b[i])
        return false;
    }
    return true;
  }

  bool step(const Node& node);

  const Graph &more_, &fewer_;
  std::vector<MaybeBatchAxis> axes_;  // by value; none: no batch axis
};

bool BatchAxisPropagation::repeats(ValueId id, const Tensor& more, const Tensor& fewer) {
  if (more.rank() != fewer.rank() || more.dtype() == DType::string) return false;
  for (int axis = 0; axis < more.rank(); ++axis) {
    if (more.shape()[axis] % kMore != 0) continue;
    at(id) = BatchAxis{axis, more.shape()[axis] / kMore};
    if (!fits(id)) continue;
    Shape of_item(more.shape().dims().subspan(static_cast<std::size_t>(axis)));
    of_item[0] = at(id)->each;
    const std::size_t item = byte_size(of_item, more.dtype());
    const auto* const first = static_cast<const std::byte*>(more.data());
    const auto* const other = static_cast<const std::byte*>(fewer.data());
    const auto before = static_cast<std::size_t>(size_of_axes(more.shape(), 0, axis));
    bool same = true;
    for (std::size_t p = 0; p < before && same; ++p)
      for (std::size_t r = 0; r < kMore && same; ++r)
        same = std::memcmp(first + p * kMore * item, first + (p * kMore + r) * item, item) == 0 &&
               (r >= kFewer ||
                std::memcmp(first + p * kMore * item, other + (p * kFewer + r) * item, item) == 0);
    if (same) return true;
  }
  at(id).reset();
  return false;
}

bool BatchAxisPropagation::step(const Node& node) {
  const bool shape_second = node.op == "Reshape" || node.op == "Expand";
  BatchAxisNode site{more_, node, kMore, {}, std::vector<MaybeBatchAxis>(node.outputs.size())};
  bool any = false;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    site.given.emplace_back();
    if (node.inputs[i] == kNoValue || (shape_second && i == 1)) continue;
    if (!constant_or(node.inputs[i])) return false;
    site.given.back() = at(node.inputs[i]);
    any = any || site.given.back();
  }
  if (is_random(node) || (any && (!node.domain.empty() || !propagate_batch_axis(site))))
    return false;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    at(node.outputs[i]) = site.out[i];
    if (!fits(node.outputs[i])) return false;
  }
  return true;
}

}  // namespace

std::optional<BatchInputs> batch_inputs_of(const Graph& graph, std::span<const TensorType> inputs) {
  std::string name;
  BatchInputs batch;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const auto& dims = graph[graph.inputs[i]].dims;
    if (!dims || inputs[i].dtype == DType::string) return std::nullopt;
    if (i == 0 && !dims->empty()) name = dims->front().symbol;
    if (name.empty()) return std::nullopt;
    batch.inputs.push_back(!dims->empty() && dims->front().symbol == name);
    for (std::size_t d = 1; d < dims->size(); ++d)
      if ((*dims)[d].symbol == name) return std::nullopt;
    if (inputs[i].shape.rank() != static_cast<int>(dims->size())) return std::nullopt;
    if (!batch.inputs[i]) continue;
    const std::int64_t size = inputs[i].shape[0];
    if (batch.count != 0 && batch.count != size) return std::nullopt;
    batch.count = size;
  }
  return batch.count > 0 ? std::optional(batch) : std::nullopt;
}

bool batch_is_independent(const Graph& graph, std::span<const TensorType> inputs,
                          const BatchInputs& batch, compute::Workers& workers) {
  const auto with = [&](std::int64_t count) {
    std::vector<TensorType> types(inputs.begin(), inputs.end());
    for (std::size_t i = 0; i < types.size(); ++i)
      if (batch.inputs[i]) types[i].shape[0] = count;
    return specialize(graph, types, workers);
  };
  try {
    const Graph more = with(kMore), fewer = with(kFewer);
    return BatchAxisPropagation(more, fewer).run(batch);
  } catch (const Error&) {
    return false;
  }
}

}  // namespace sluice::engine

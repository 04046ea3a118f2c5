// TopK.
#include <algorithm>
#include <numeric>

#include "engine/ops/axes.h"
#include "engine/ops/families.h"
#include "engine/ops/math/total_order.h"

namespace sluice::engine {
namespace {

struct Best {
  std::int64_t outer, size, inner, k;
  bool largest;
};

// Equal values keep their order.
template <class T>
void best_of(const Best& plan, const T* from, T* values, std::int64_t* indices, std::size_t begin,
             std::size_t end) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(plan.size));
  const auto cut = order.begin() + plan.k;
  for (auto row = static_cast<std::int64_t>(begin); row < static_cast<std::int64_t>(end); ++row) {
    const std::int64_t outer = row / plan.inner, inner = row % plan.inner;
    const T* const line = from + outer * plan.size * plan.inner + inner;
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), cut, order.end(), [&](std::int64_t i, std::int64_t j) {
      const T &a = line[i * plan.inner], &b = line[j * plan.inner];
      const bool before = plan.largest ? below(b, a) : below(a, b);
      const bool after = plan.largest ? below(a, b) : below(b, a);
      return before || (!after && i < j);
    });
    for (std::int64_t i = 0; i < plan.k; ++i) {
      const std::int64_t to = (outer * plan.k + i) * plan.inner + inner;
      indices[to] = order[static_cast<std::size_t>(i)];
      values[to] = line[indices[to] * plan.inner];
    }
  }
}

void top_k(OpCall& call) {
  const Tensor& data = call.input(0);
  const int axis = resolve_axis(call.attributes().integer("axis", -1), data.rank());
  const std::int64_t k = call.version() < 10 ? call.attributes().integer("k") : integer_of(call, 1);
  const std::int64_t size = data.shape()[axis];
  require(k >= 0 && k <= size, "the best " + std::to_string(k) + " of " + std::to_string(size));
  Shape shape = data.shape();
  shape[axis] = k;
  const Best plan{.outer = shape.size(0, axis),
                  .size = size,
                  .inner = shape.size(axis + 1, shape.rank()),
                  .k = k,
                  .largest = call.attributes().flag("largest", true)};
  const Tensor values = call.output(0, data.dtype(), shape);
  const Tensor indices = call.output(1, DType::i64, shape);
  if (values.size() == 0) return;
  const std::size_t grain = static_cast<std::size_t>(1 + 8192 / (size + 1));
  visit_numbers(data.dtype(), [&]<class T>() {
    call.workers.each(static_cast<std::size_t>(plan.outer * plan.inner), grain,
                      [&](std::size_t begin, std::size_t end) {
                        best_of<T>(plan, data.values<T>().data(), values.values<T>().data(),
                                   indices.values<std::int64_t>().data(), begin, end);
                      });
  });
}

constexpr Op kTopKOps[] = {
    {"TopK", 1, kNumbers, top_k},
};

}  // namespace

std::span<const Op> top_k_ops() { return kTopKOps; }

}  // namespace sluice::engine

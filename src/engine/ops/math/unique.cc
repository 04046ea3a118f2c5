// Unique.
#include <algorithm>
#include <numeric>

#include "engine/ops/axes.h"
#include "engine/ops/families.h"
#include "engine/ops/math/total_order.h"
#include "engine/ops/moves.h"

namespace sluice::engine {
namespace {

// Groups equal rows among `count` rows of `width` elements.
struct RowGroups {
  std::vector<std::int64_t> first,
      counts;                    // of each group: the index of its first row, and its size
  std::vector<std::int64_t> of;  // the group of each row
};

template <class T>
RowGroups groups_of(const T* rows, std::int64_t count, std::int64_t width, bool sorted) {
  const auto less = [&](std::int64_t i, std::int64_t j) {
    return std::lexicographical_compare(rows + i * width, rows + (i + 1) * width, rows + j * width,
                                        rows + (j + 1) * width, below<T>);
  };
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), less);
  RowGroups groups;
  groups.of.resize(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || less(order[i - 1], order[i])) {
      groups.first.push_back(order[i]);
      groups.counts.push_back(0);
    }
    ++groups.counts.back();
    groups.of[static_cast<std::size_t>(order[i])] =
        static_cast<std::int64_t>(groups.first.size()) - 1;
  }
  if (sorted) return groups;
  std::vector<std::int64_t> by_first(groups.first.size());  // by first occurrence
  std::iota(by_first.begin(), by_first.end(), 0);
  const auto at_of = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  std::sort(by_first.begin(), by_first.end(), [&](std::int64_t a, std::int64_t b) {
    return groups.first[at_of(a)] < groups.first[at_of(b)];
  });
  RowGroups placed;
  std::vector<std::int64_t> now(by_first.size());
  for (const std::int64_t group : by_first) {
    now[at_of(group)] = static_cast<std::int64_t>(placed.first.size());
    placed.first.push_back(groups.first[at_of(group)]);
    placed.counts.push_back(groups.counts[at_of(group)]);
  }
  for (const std::int64_t group : groups.of) placed.of.push_back(now[at_of(group)]);
  return placed;
}

void unique(OpCall& call) {
  Tensor data = call.input(0);
  int axis = 0;
  if (call.attributes().has("axis"))
    axis = resolve_axis(call.attributes().integer("axis"), data.rank());
  else
    data = data.reshaped(Shape{data.size()});
  std::vector<int> order = all_axes(data.rank());
  std::rotate(order.begin(), order.begin() + axis, order.begin() + axis + 1);
  const Tensor rows = transposed(data, order, call.workers);
  const std::int64_t count = rows.shape()[0];
  require(rows.size() > 0 || count < (1 << 24), "too many rows of nothing");
  RowGroups groups;
  visit_types<float, double, Half, BFloat16, std::int8_t, std::int16_t, std::int32_t, std::int64_t,
              std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, bool, std::string>(
      rows.dtype(), [&]<class T>() {
        groups = groups_of<T>(rows.values<T>().data(), count, rows.shape().size(1, rows.rank()),
                              call.attributes().flag("sorted", true));
      });
  call.set_output(0, gathered(data, axis, groups.first, call.workers));
  const auto list = [](const std::vector<std::int64_t>& of) {
    return Tensor::of(std::span<const std::int64_t>(of));
  };
  call.set_output(1, list(groups.first));
  call.set_output(2, list(groups.of));
  call.set_output(3, list(groups.counts));
}

constexpr Op kUniqueOps[] = {
    {"Unique", 11, kNumbers | Types{DType::boolean, DType::string}, unique}};

}  // namespace

std::span<const Op> unique_ops() { return kUniqueOps; }

}  // namespace sluice::engine

#include <algorithm>

#include "kernels/data_movement/moves.h"

namespace sluice::kernels::cuda {
namespace {

// Neighbours that lie behind each other in both merged, axes of one gone, in the target's
// order.
std::vector<MoveAxis> simplified(std::vector<MoveAxis> axes) {
  std::erase_if(axes, [](const MoveAxis& axis) { return axis.size == 1; });
  std::stable_sort(axes.begin(), axes.end(),
                   [](const MoveAxis& a, const MoveAxis& b) { return a.to > b.to; });
  std::vector<MoveAxis> merged;
  for (const MoveAxis& axis : axes) {
    if (!merged.empty()) {
      MoveAxis& outer = merged.back();
      if (outer.from == axis.from * axis.size && outer.to == axis.to * axis.size) {
        outer = {outer.size * axis.size, axis.from, axis.to};
        continue;
      }
    }
    merged.push_back(axis);
  }
  return merged;
}

// Two elements as one of twice the width, as long as all lies so.
void widen(std::vector<MoveAxis>& axes, Move& move) {
  while (!axes.empty() && move.width < 16) {
    const MoveAxis& last = axes.back();
    if (last.from != 1 || last.to != 1 || last.size % 2 != 0 || move.from_first % 2 != 0 ||
        move.to_first % 2 != 0)
      return;
    for (std::size_t i = 0; i + 1 < axes.size(); ++i)
      if (axes[i].from % 2 != 0 || axes[i].to % 2 != 0) return;
    for (std::size_t i = 0; i + 1 < axes.size(); ++i) axes[i].from /= 2, axes[i].to /= 2;
    axes.back().size /= 2;
    move.from_first /= 2;
    move.to_first /= 2;
    move.width *= 2;
  }
}

// Brings the axis along which the source has its neighbours next to the last.
bool turn(std::vector<MoveAxis>& axes) {
  if (axes.size() < 2 || axes.back().to != 1 || axes.back().from == 1 || axes.back().from == 0)
    return false;
  const auto found = std::find_if(axes.begin(), axes.end() - 1,
                                  [](const MoveAxis& axis) { return axis.from == 1; });
  if (found == axes.end() - 1 || found->size < 8 || axes.back().size < 8) return false;
  std::rotate(found, found + 1, axes.end() - 1);
  return true;
}

// A thread weaves several pixels and a block thousands: with fewer, most threads would be idle.
constexpr std::int64_t kLeastWoven = 512;

bool weaves(std::int64_t few, std::int64_t many) {
  return few >= 2 && few <= 4 && many >= kLeastWoven;
}

Move::Way way_of(std::vector<MoveAxis>& axes, int width) {
  if (width <= 4 && (axes.size() == 2 || axes.size() == 3)) {
    const MoveAxis &last = axes.back(), &across = axes[axes.size() - 2];
    const bool across_first = across.from == 1 && last.to == 1;
    if (across_first && across.to == last.size && weaves(last.size, across.size))
      return Move::Way::weave;
    if (across_first && last.from == across.size && weaves(across.size, last.size))
      return Move::Way::unweave;
  }
  return turn(axes) ? Move::Way::turn : Move::Way::steps;
}

}  // namespace

bool plan_move(std::vector<MoveAxis> axes, std::int64_t from_first, std::int64_t to_first,
               int width, Move& move) {
  move = {};
  move.width = width;
  move.from_first = from_first;
  move.to_first = to_first;
  std::int64_t total = 1;
  for (const MoveAxis& axis : axes) total *= axis.size;
  if (total >= std::int64_t{1} << 31) return false;
  if (total > 0) {
    axes = simplified(std::move(axes));
    widen(axes, move);
    move.way = way_of(axes, move.width);
    if (axes.size() > static_cast<std::size_t>(kMostMoveAxes)) return false;
    move.rank = static_cast<int>(axes.size());
    total = 1;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      move.size[i] = Divisor(axes[i].size);
      move.from_step[i] = axes[i].from;
      move.to_step[i] = axes[i].to;
      total *= axes[i].size;
    }
  }
  move.total = total;
  return true;
}

}  // namespace sluice::kernels::cuda

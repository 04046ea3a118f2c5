// What the kernels are told that only move elements. Elements are known by their width in
// bytes: 1, 2, 4, 8 or 16. Sizes are below 2^31.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "kernels/common/launch_args.h"

namespace sluice::kernels::cuda {

inline constexpr int kMostMoveAxes = 8;

// Divides by `size` what is below 2^31.
struct Divisor {
  unsigned size = 1, multiply = 1, shift = 0;

  Divisor() = default;
  explicit Divisor(std::int64_t by)
      : size(static_cast<unsigned>(by)), shift(static_cast<unsigned>(std::bit_width(size - 1))) {
    const std::uint64_t power = std::uint64_t{1} << shift;
    multiply = static_cast<unsigned>(((power - size) << 32) / size + 1);
  }
};

// An axis along which source and target advance by `from` and `to` elements.
struct MoveAxis {
  std::int64_t size, from, to;
};

// to[...] = from[...], axes as given, the innermost last.
struct Move {
  const void* from = nullptr;
  void* to = nullptr;
  int width = 1, rank = 0;
  std::int64_t total = 1;
  std::int64_t from_first = 0, to_first = 0;  // elements
  Divisor size[kMostMoveAxes];
  std::int64_t from_step[kMostMoveAxes] = {}, to_step[kMostMoveAxes] = {};
  // turn: neighbours in the source lie along the axis before the last. weave: so they do, and the
  // last has 2 to 4 places that the target has side by side; unweave: its way back.
  enum class Way { steps, turn, weave, unweave } way = Way::steps;
};
// Merged, as wide as it can be read; false where it has too many axes or elements.
bool plan_move(std::vector<MoveAxis> axes, std::int64_t from_first, std::int64_t to_first,
               int width, Move& move);
void run_move(const Move& move, const LaunchArgs& args);

// The element for each place is the sum of what the tables say for its axes; where one says
// less than 0, it is `fill`.
struct TableMove {
  const void* from;
  void* to;
  const std::int32_t* tables;  // one behind the other
  const void* fill;            // on the device; null: zeros
  int width, rank;
  std::int64_t total;
  Divisor size[kMostMoveAxes];
  int table[kMostMoveAxes];  // where each begins
};
void run_table_move(const TableMove& move, const LaunchArgs& args);

// to[o, i, k] = from[o, indices[i], k]; zeros where there is no such, which is told.
struct Take {
  ErrorFlag error;
  const void *from, *indices;
  void* to;
  int width;
  bool long_indices;  // i64, otherwise i32
  std::int64_t total, size;
  Divisor count, inner;
};
void run_take(const Take& take, const LaunchArgs& args);

// to[i] = from[place of i], where an index replaces the own along one axis.
struct TakeElements {
  ErrorFlag error;
  const void *from, *indices;
  void* to;
  int width, rank;
  bool long_indices;
  std::int64_t total, size, axis_step;  // size and step of the axis in the source
  Divisor shape[kMostMoveAxes];         // of the indices
  std::int64_t step[kMostMoveAxes];     // of the source; 0 along the axis
};
void run_take_elements(const TakeElements& take, const LaunchArgs& args);

// Tuples of indices name blocks of `inner` elements.
struct Tuples {
  ErrorFlag error;
  const void* indices;
  bool long_indices;
  int depth;
  std::int64_t count, in_batch, batch_step;  // tuples, those of one batch, its step
  std::int64_t size[kMostMoveAxes], step[kMostMoveAxes];
};
void run_take_tuples(const Tuples& tuples, const void* from, void* to, int width,
                     std::int64_t inner, const LaunchArgs& args);

enum class Reduction { none, add, mul, max, min };
enum class NumberType { f32, f16, bf16, i32, i64 };

// Lines along the axis, one after the other, so that the later of two wins.
struct PutElements {
  TakeElements where;  // `from` are the updates, `to` the target
  int axis;
};
void run_put_elements(const PutElements& put, Reduction how, NumberType type,
                      const LaunchArgs& args);
void run_put_tuples(const Tuples& tuples, const void* from, void* to, int width, std::int64_t inner,
                    Reduction how, NumberType type, const LaunchArgs& args);

struct ByRule {
  enum class Rule { upper, lower, diagonal, one_hot, fill } rule;
  const void *from, *more;  // one_hot: indices, and off and on
  void* to;
  int width;
  std::int64_t total;
  std::int64_t rows, columns, shift;  // of matrices; one_hot: depth and inner
  int index_bytes;                    // one_hot: 4 or 8; -4: f32
  std::uint64_t value[2];             // fill, diagonal: the bits of an element
};
void run_by_rule(const ByRule& rule, const LaunchArgs& args);

struct Reverse {
  ErrorFlag error;
  const void *from, *lengths;
  void* to;
  int width;
  bool long_lengths;
  std::int64_t total, batch, batch_step, time, time_step;
};
void run_reverse(const Reverse& reverse, const LaunchArgs& args);

// Sums (or products) so far along the middle of outer x n x inner.
struct Running {
  const void* from;
  void* to;
  std::int64_t outer, n, inner;
  bool product, exclusive, backward;
};
void run_running(NumberType type, const Running& running, const LaunchArgs& args);

}  // namespace sluice::kernels::cuda

// CUDA kernels that only move elements, and the scatter and scan operators beside them. Elements
// are identified by their width in bytes: 1, 2, 4, 8 or 16. Sizes are below 2^31. An index out of
// range is reported to the ErrorFlag.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "kernels/common/launch_args.h"
#include "kernels/data_movement/copy_axis.h"

namespace sluice::kernels::cuda {

using kernels::CopyAxis;

inline constexpr int kMaxCopyAxes = 8;

// Division of integers below 2^31 by a constant `size`, as a multiplication and a shift.
struct Divisor {
  unsigned size = 1, multiply = 1, shift = 0;

  Divisor() = default;
  explicit Divisor(std::int64_t by)
      : size(static_cast<unsigned>(by)), shift(static_cast<unsigned>(std::bit_width(size - 1))) {
    const std::uint64_t power = std::uint64_t{1} << shift;
    multiply = static_cast<unsigned>(((power - size) << 32) / size + 1);
  }
};

// to[...] = from[...] over the given axes, the innermost last: Transpose, Slice, Expand, Concat.
struct StridedCopyCall {
  const void* from = nullptr;
  void* to = nullptr;
  int width = 1, rank = 0;
  std::int64_t total = 1;
  std::int64_t from_first = 0, to_first = 0;  // offsets in elements
  Divisor size[kMaxCopyAxes];
  std::int64_t from_stride[kMaxCopyAxes] = {}, to_stride[kMaxCopyAxes] = {};
  // tiled_transpose: the source is contiguous along the axis before the last. nchw_to_nhwc: so it
  // is, and the last axis, 2 to 4 channels, is contiguous in the target; nhwc_to_nchw is the
  // inverse.
  enum class Algorithm { strided, tiled_transpose, nchw_to_nhwc, nhwc_to_nchw };
  Algorithm algorithm = Algorithm::strided;
};
// Merges axes and widens elements as far as possible. False where there are too many axes or
// elements.
bool plan_strided_copy(std::vector<CopyAxis> axes, std::int64_t from_first, std::int64_t to_first,
                       int width, StridedCopyCall& copy);
void run_strided_copy(const StridedCopyCall& copy, const LaunchArgs& args);

// Pad and nearest-neighbour Resize: the source offset of an element is the sum of one table entry
// for each axis. Where an entry is negative the element is `fill`.
struct IndexTableCopyCall {
  const void* from;
  void* to;
  const std::int32_t* tables;  // one after the other
  const void* fill;            // on the device; null: zeros
  int width, rank;
  std::int64_t total;
  Divisor size[kMaxCopyAxes];
  int table[kMaxCopyAxes];  // where the table of each axis begins
};
void run_index_table_copy(const IndexTableCopyCall& copy, const LaunchArgs& args);

// to[o, i, k] = from[o, indices[i], k]; zeros where the index is out of range.
struct GatherCall {
  ErrorFlag error;
  const void *from, *indices;
  void* to;
  int width;
  bool long_indices;  // i64; otherwise i32
  std::int64_t total, size;
  Divisor count, inner;
};
void run_gather(const GatherCall& take, const LaunchArgs& args);

// GatherElements: to[i] = from[i with its coordinate along one axis replaced by the index].
struct GatherElementsCall {
  ErrorFlag error;
  const void *from, *indices;
  void* to;
  int width, rank;
  bool long_indices;
  std::int64_t total, size, axis_stride;  // size and stride of the axis in the source
  Divisor shape[kMaxCopyAxes];            // of the indices
  std::int64_t stride[kMaxCopyAxes];      // of the source; 0 along the axis
};
void run_gather_elements(const GatherElementsCall& take, const LaunchArgs& args);

// The index tuples of GatherND and ScatterND; each selects a slice of `inner` elements.
struct GatherNdIndices {
  ErrorFlag error;
  const void* indices;
  bool long_indices;
  int depth;
  std::int64_t count, tuples_per_batch, batch_stride;
  std::int64_t size[kMaxCopyAxes], stride[kMaxCopyAxes];
};
void run_gather_nd(const GatherNdIndices& tuples, const void* from, void* to, int width,
                   std::int64_t inner, const LaunchArgs& args);

enum class Reduction { none, add, mul, max, min };
enum class NumberType { f32, f16, bf16, i32, i64 };

// ScatterElements. One thread does a line along the axis in order, so that of equal indices the
// last update wins.
struct ScatterElementsCall {
  GatherElementsCall target;  // `from` are the updates, `to` is the target
  int axis;
};
void run_scatter_elements(const ScatterElementsCall& put, Reduction how, NumberType type,
                          const LaunchArgs& args);
void run_scatter_nd(const GatherNdIndices& tuples, const void* from, void* to, int width,
                    std::int64_t inner, Reduction how, NumberType type, const LaunchArgs& args);

// Trilu, EyeLike, OneHot and ConstantOfShape.
struct PatternFillCall {
  enum class Pattern { triu, tril, eye, one_hot, fill } pattern;
  const void *from, *values;  // one_hot: the indices, and the off and on values
  void* to;
  int width;
  std::int64_t total;
  std::int64_t rows, columns, shift;  // of matrices; one_hot: depth and inner
  int index_bytes;                    // one_hot: 4 or 8; -4: f32
  std::uint64_t value[2];             // fill, eye: the bits of an element
};
void run_pattern_fill(const PatternFillCall& fill, const LaunchArgs& args);

struct ReverseSequenceCall {
  ErrorFlag error;
  const void *from, *lengths;
  void* to;
  int width;
  bool long_lengths;
  std::int64_t total, batch, batch_stride, time, time_stride;
};
void run_reverse_sequence(const ReverseSequenceCall& reverse, const LaunchArgs& args);

// CumSum, or CumProd with `product`, along the middle axis of outer x n x inner.
struct CumSumCall {
  const void* from;
  void* to;
  std::int64_t outer, n, inner;
  bool product, exclusive, backward;
};
void run_cumsum(NumberType type, const CumSumCall& call, const LaunchArgs& args);

}  // namespace sluice::kernels::cuda

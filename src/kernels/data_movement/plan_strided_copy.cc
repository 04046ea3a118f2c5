#include <algorithm>

#include "kernels/data_movement/data_movement.h"

namespace sluice::kernels::cuda {
namespace {

// Doubles the element width while sizes, offsets and strides allow it.
void widen_elements(std::vector<CopyAxis>& axes, StridedCopyCall& copy) {
  while (!axes.empty() && copy.width < 16) {
    const CopyAxis& last = axes.back();
    if (last.from != 1 || last.to != 1 || last.size % 2 != 0 || copy.from_first % 2 != 0 ||
        copy.to_first % 2 != 0)
      return;
    for (std::size_t i = 0; i + 1 < axes.size(); ++i)
      if (axes[i].from % 2 != 0 || axes[i].to % 2 != 0) return;
    for (std::size_t i = 0; i + 1 < axes.size(); ++i) axes[i].from /= 2, axes[i].to /= 2;
    axes.back().size /= 2;
    copy.from_first /= 2;
    copy.to_first /= 2;
    copy.width *= 2;
  }
}

// Moves the axis along which the source is contiguous next to the last one. False: a transpose does
// not pay.
bool move_transposed_axis(std::vector<CopyAxis>& axes) {
  if (axes.size() < 2 || axes.back().to != 1 || axes.back().from == 1 || axes.back().from == 0)
    return false;
  const auto found = std::find_if(axes.begin(), axes.end() - 1,
                                  [](const CopyAxis& axis) { return axis.from == 1; });
  if (found == axes.end() - 1 || found->size < 8 || axes.back().size < 8) return false;
  std::rotate(found, found + 1, axes.end() - 1);
  return true;
}

// A thread interleaves several pixels and a block thousands; with fewer most threads would be idle.
constexpr std::int64_t kMinInterleavedPixels = 512;

bool is_interleave(std::int64_t channels, std::int64_t pixels) {
  return channels >= 2 && channels <= 4 && pixels >= kMinInterleavedPixels;
}

StridedCopyCall::Algorithm algorithm_of(std::vector<CopyAxis>& axes, int width) {
  if (width <= 4 && (axes.size() == 2 || axes.size() == 3)) {
    const CopyAxis &last = axes.back(), &across = axes[axes.size() - 2];
    const bool across_first = across.from == 1 && last.to == 1;
    if (across_first && across.to == last.size && is_interleave(last.size, across.size))
      return StridedCopyCall::Algorithm::nchw_to_nhwc;
    if (across_first && last.from == across.size && is_interleave(across.size, last.size))
      return StridedCopyCall::Algorithm::nhwc_to_nchw;
  }
  return move_transposed_axis(axes) ? StridedCopyCall::Algorithm::tiled_transpose
                                    : StridedCopyCall::Algorithm::strided;
}

}  // namespace

bool plan_strided_copy(std::vector<CopyAxis> axes, std::int64_t from_first, std::int64_t to_first,
                       int width, StridedCopyCall& copy) {
  copy = {};
  copy.width = width;
  copy.from_first = from_first;
  copy.to_first = to_first;
  std::int64_t total = 1;
  for (const CopyAxis& axis : axes) total *= axis.size;
  if (total >= std::int64_t{1} << 31) return false;
  if (total > 0) {
    axes = merged_axes(std::move(axes));
    widen_elements(axes, copy);
    copy.algorithm = algorithm_of(axes, copy.width);
    if (axes.size() > static_cast<std::size_t>(kMaxCopyAxes)) return false;
    copy.rank = static_cast<int>(axes.size());
    total = 1;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      copy.size[i] = Divisor(axes[i].size);
      copy.from_stride[i] = axes[i].from;
      copy.to_stride[i] = axes[i].to;
      total *= axes[i].size;
    }
  }
  copy.total = total;
  return true;
}

}  // namespace sluice::kernels::cuda

#include "kernels/data_movement/copy_axis.h"

#include <algorithm>

namespace sluice::kernels {

std::vector<CopyAxis> merged_axes(std::vector<CopyAxis> axes) {
  std::erase_if(axes, [](const CopyAxis& axis) { return axis.size == 1; });
  std::stable_sort(axes.begin(), axes.end(),
                   [](const CopyAxis& a, const CopyAxis& b) { return a.to > b.to; });
  std::vector<CopyAxis> merged;
  for (const CopyAxis& axis : axes) {
    if (!merged.empty()) {
      CopyAxis& outer = merged.back();
      if (outer.from == axis.from * axis.size && outer.to == axis.to * axis.size) {
        outer = {outer.size * axis.size, axis.from, axis.to};
        continue;
      }
    }
    merged.push_back(axis);
  }
  return merged;
}

}  // namespace sluice::kernels

// Where a kernel stops that computes live rows only.
#pragma once

#include "kernels/common/launch_args.h"

namespace sluice::kernels::cuda {

// How many elements of a result belong to its live rows, which come first.
struct LiveLimit {
  const std::int32_t* rows = nullptr;  // null: all
  std::int64_t total = 0, each = 0;    // elements; of a row

  LiveLimit() = default;
  LiveLimit(const LiveRows& live, std::int64_t all)
      : rows(live.capacity > 0 && all % live.capacity == 0 ? live.count() : nullptr),
        total(all),
        each(live.capacity > 0 ? all / live.capacity : 0) {}

  __device__ std::int64_t operator()() const { return rows == nullptr ? total : *rows * each; }
};

}  // namespace sluice::kernels::cuda

// A block of a kernel that multiplies on Hopper: its warps, its memory and what they wait for.
#pragma once

#include <algorithm>

#include "kernels/ptx/mbarrier.cuh"
#include "kernels/quantized/int8_gemm.h"

namespace sluice::kernels::cuda {

constexpr int kGroup = 128;                          // threads
constexpr int kGroups = 2;                           // that multiply
constexpr int kThreads = kGroups * kGroup + 2 * 32;  // and the two other warps
constexpr int kFetcher = kGroups * kGroup, kWriter = kFetcher + 32;
constexpr int kPattern = 1024;  // bytes after which it repeats; a stage begins at such

constexpr int kBlocks = 2;                           // on a multiprocessor
constexpr int kBytes = 228 * 1024 / kBlocks - 1024;  // of memory, less the system's

// kRows x kColumns results, by kDepth bytes of k at a time.
template <int kColumnsOf, int kDepthOf>
struct Shape {
  static constexpr int kColumns = kColumnsOf, kDepth = kDepthOf;
  static constexpr int kGroupRows = 64, kRows = kGroups * kGroupRows;
  static constexpr int kLeft = kRows * kDepth, kRight = kColumns * kDepth;  // bytes of a stage
};

// Stages, then boxes of results, each with what it is added to, if that does not lie in the same
// place, then the right side, if it is kept for all tiles, then barriers. The same for all blocks.
struct Room {
  int stages = 0, stage_bytes = 0;
  int boxes = 0, box_bytes = 0, residual = 0;  // where in a box that is
  int right = 0, right_bytes = 0;              // 0: in the stages
  int barriers = 0, bytes = 0;
};

struct Barriers {
  unsigned at;
  static constexpr int kMostStages = 8, kMostBoxes = 4;
  static constexpr int kBytes = (2 * (kMostStages + kMostBoxes) + 1) * 8;

  __device__ unsigned full(int stage) const { return at + static_cast<unsigned>(stage) * 16; }
  __device__ unsigned empty(int stage) const { return full(stage) + 8; }
  __device__ unsigned ready(int box) const { return full(kMostStages + box); }
  __device__ unsigned made(int box) const { return empty(kMostStages + box); }
  __device__ unsigned right() const { return full(kMostStages + kMostBoxes); }

  __device__ void init() const {
    for (int i = 0; i < kMostStages + kMostBoxes; ++i) {
      init_barrier(full(i), 1);
      init_barrier(empty(i), kGroups * kGroup / 32);
    }
    init_barrier(right(), 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
};

// Whose turn it is in a ring.
struct Turn {
  int at = 0;
  unsigned phase = 0;

  __device__ void next(int count) {
    if (++at == count) at = 0, phase ^= 1;
  }
};

// More boxes where tiles follow each other quickly, more stages otherwise; and a right side that is
// the same for all is kept where it takes no more than a part of it.
template <class S>
Room room_of(const SmallFinish& f, int steps) {
  const int of_results = S::kRows * S::kColumns * bytes_of(f.to);
  const int of_residual = S::kRows * S::kColumns * bytes_of(f.residual_type);
  Room room{.stage_bytes = S::kLeft + S::kRight, .box_bytes = of_results};
  if (f.residual_type != SmallType::none && of_residual != of_results) {
    room.residual = of_results;
    room.box_bytes += of_residual;
  }
  int left = kBytes - Barriers::kBytes;
  if (f.n <= S::kColumns && steps * S::kRight <= kBytes * 2 / 5) {
    room.right_bytes = steps * S::kRight;
    room.stage_bytes = S::kLeft;
    left -= room.right_bytes;
  }
  const int stages = steps <= 2 ? 2 : steps <= 4 ? 3 : Barriers::kMostStages;  // if there is room
  room.boxes =
      std::clamp((left - stages * room.stage_bytes) / room.box_bytes, 1, Barriers::kMostBoxes);
  room.stages =
      std::min((left - room.boxes * room.box_bytes) / room.stage_bytes, Barriers::kMostStages);
  const int end = room.stages * room.stage_bytes + room.boxes * room.box_bytes;
  if (room.right_bytes > 0) room.right = end;
  room.barriers = end + room.right_bytes;
  room.bytes = room.barriers + Barriers::kBytes;
  return room;
}

}  // namespace sluice::kernels::cuda

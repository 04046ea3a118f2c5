// Products of bytes on Hopper. A block makes one tile after the other. One warp has boxes of both
// sides copied to shared memory, stage after stage; two groups of four warps multiply them there,
// 64 x 64 or 64 x 128 x 32 numbers at a time, and put results into a box, where what they are to be
// added to may lie already; another warp has that fetched before and the results written. So
// tiles overlap, and nobody computes addresses.
//
// Limit: the tensor cores where k is large, though a tile of 128 x 128 is fed by the L2 cache at
// no more than 40 % of their pace, 128 x 256 at 55 %; memory where k is small. (Of fp8 its sums are
// narrower than f32, so that those are left to cuBLASLt.)
#include "engine/cuda/boxes.h"
#include "engine/cuda/igmma.cuh"
#include "engine/cuda/launch.cuh"
#include "engine/cuda/quantized_hopper.h"
#include "engine/cuda/quantized_share.cuh"

namespace sluice::engine::cuda {
namespace {

constexpr int kGroups = 2;                           // that multiply
constexpr int kThreads = kGroups * kGroup + 2 * 32;  // and the two other warps
constexpr int kFetcher = kGroups * kGroup, kWriter = kFetcher + 32;
constexpr int kPattern = 1024;  // bytes after which it repeats; a stage begins at such

// kRows x kColumns results, by kDepth bytes of k at a time; kBlocks on a multiprocessor.
template <int kColumnsOf, int kDepthOf, int kBlocksOf>
struct Shape {
  static constexpr int kColumns = kColumnsOf, kDepth = kDepthOf, kBlocks = kBlocksOf;
  static constexpr int kGroupRows = 64, kRows = kGroups * kGroupRows;
  static constexpr int kStage = (kRows + kColumns) * kDepth;
  static constexpr int kBytes = 228 * 1024 / kBlocks - 1024;  // of memory, less the system's
};

// ---- products ------------------------------------------------------------------------------

// A group's sums, in pieces as wide as one product.
template <class Kind, class S>
struct GroupSums {
  static constexpr int kWide = std::min(S::kColumns, 128), kPieces = S::kColumns / kWide;
  int at[kPieces][kWide / 2];

  // Both sides as they lie in a stage; `left` where the group's rows begin.
  __device__ void add(unsigned left, unsigned right) {
    begin_products();
#pragma unroll
    for (int k = 0; k < S::kDepth; k += 32)
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece)
        Kind::add(at[piece], side_at<S::kDepth>(left + k),
                  side_at<S::kDepth>(right + piece * kWide * S::kDepth + k));
    end_products();
  }

  __device__ void clear() {
#pragma unroll
    for (auto& piece : at)
#pragma unroll
      for (int& sum : piece) sum = 0;
  }
};

// ---- a block's memory ----------------------------------------------------------------------

extern __shared__ __align__(kPattern) unsigned char memory[];

// Stages, then boxes of results, each with what it is added to, if that does not lie in the same
// place, then barriers. The same for all blocks.
struct Room {
  int stages = 0, boxes = 0;
  int box_bytes = 0, residual = 0;  // of a box; where in it that is
  int barriers = 0, bytes = 0;
};

struct Barriers {
  unsigned at;
  static constexpr int kMostStages = 8, kMostBoxes = 4;
  static constexpr int kBytes = 2 * (kMostStages + kMostBoxes) * 8;

  __device__ unsigned full(int stage) const { return at + static_cast<unsigned>(stage) * 16; }
  __device__ unsigned empty(int stage) const { return full(stage) + 8; }
  __device__ unsigned ready(int box) const { return full(kMostStages + box); }
  __device__ unsigned made(int box) const { return empty(kMostStages + box); }

  __device__ void init() const {
    for (int i = 0; i < kMostStages + kMostBoxes; ++i) {
      init_barrier(full(i), 1);
      init_barrier(empty(i), kGroups * kGroup / 32);
    }
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

struct HopperProduct {
  CUtensorMap left, right, residual, result;
  SmallRows rows;
  SmallFinish finish;
  const SmallColumn* columns;
  bool is_image;  // left is of windows; of rows otherwise
  int steps;      // of kDepth, for each tile
  long long tiles;
  Room room;
};

__device__ unsigned stages_at() { return shared_address(memory); }
template <class S>
__device__ unsigned box_at(const Room& room, int box) {
  return stages_at() + static_cast<unsigned>(room.stages * S::kStage + box * room.box_bytes);
}

// ---- the warp that fetches -----------------------------------------------------------------

// Both sides of a tile, kDepth bytes after the other: all channels of a place, then the next.
template <class S>
class Sides {
 public:
  __device__ Sides(const HopperProduct& p, SmallPlace place) : p_(p), place_(place) {
    const SmallRows& r = p.rows;
    const int pixels = r.out_high * r.out_wide, row = static_cast<int>(place.row);
    window_.image = row / pixels;
    window_.y = row % pixels / r.out_wide * r.stride_high - r.top;
    window_.x = row % pixels % r.out_wide * r.stride_wide - r.left;
  }

  __device__ void fetch(unsigned to, unsigned barrier) {
    arrive_with(barrier, S::kStage);
    if (p_.is_image)
      fetch_windows(to, p_.left, channel_, window_, barrier);
    else
      fetch_box(to, p_.left, channel_, static_cast<int>(place_.row), barrier);
    fetch_box(to + S::kRows * S::kDepth, p_.right, first_ + channel_, place_.column, barrier);
    go();
  }

 private:
  __device__ void go() {
    const SmallRows& r = p_.rows;
    if ((channel_ += S::kDepth) < r.channels) return;
    channel_ = 0, first_ += r.channels;
    window_.across += r.dilation_wide;
    if (window_.across < r.kernel_wide * r.dilation_wide) return;
    window_.across = 0, window_.down += r.dilation_high;
  }

  const HopperProduct& p_;
  const SmallPlace place_;
  WindowPlace window_{};
  int first_ = 0, channel_ = 0;  // of the place, in a row of the right side; in the place
};

template <class S>
__device__ void fetch_tiles(const HopperProduct& p, Barriers barriers) {
  Turn turn;
  for (long long tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
    Sides<S> sides(p, small_place<S>(p.finish, tile));
    for (int step = 0; step < p.steps; ++step, turn.next(p.room.stages)) {
      await(barriers.empty(turn.at), turn.phase ^ 1);
      sides.fetch(stages_at() + static_cast<unsigned>(turn.at * S::kStage), barriers.full(turn.at));
    }
  }
}

// ---- the warp that writes ------------------------------------------------------------------

// A box of a tile is as wide as its columns are, in strips of up to 128 bytes.
template <class S, class What>
__device__ void each_strip(int element, const What& what) {
  const int wide = S::kColumns * element;
  for (int byte = 0; byte < wide; byte += 128) what(byte, static_cast<unsigned>(byte * S::kRows));
}

// Makes a box ready for a tile.
template <class S>
__device__ void prepare(const HopperProduct& p, Barriers barriers, int box, long long tile) {
  if (tile >= p.tiles) return;
  if (p.finish.residual_type == SmallType::none) return arrive(barriers.ready(box));
  const SmallPlace place = small_place<S>(p.finish, tile);
  const int element = size_of(p.finish.residual_type);
  const unsigned to = box_at<S>(p.room, box) + static_cast<unsigned>(p.room.residual);
  arrive_with(barriers.ready(box), static_cast<unsigned>(S::kRows * S::kColumns * element));
  each_strip<S>(element, [&](int byte, unsigned at) {
    fetch_box(to + at, p.residual, place.column * element + byte, static_cast<int>(place.row),
              barriers.ready(box));
  });
}

template <class S>
__device__ void write_tiles(const HopperProduct& p, Barriers barriers) {
  const int boxes = p.room.boxes, element = size_of(p.finish.to);
  for (int box = 0; box < boxes; ++box)
    prepare<S>(p, barriers, box, blockIdx.x + static_cast<long long>(box) * gridDim.x);
  Turn turn;
  for (long long tile = blockIdx.x; tile < p.tiles; tile += gridDim.x, turn.next(boxes)) {
    await(barriers.made(turn.at), turn.phase);
    const SmallPlace place = small_place<S>(p.finish, tile);
    each_strip<S>(element, [&](int byte, unsigned at) {
      write_box(p.result, place.column * element + byte, static_cast<int>(place.row),
                box_at<S>(p.room, turn.at) + at);
    });
    await_written();
    prepare<S>(p, barriers, turn.at, tile + static_cast<long long>(boxes) * gridDim.x);
  }
}

// ---- the groups that multiply --------------------------------------------------------------

template <class Kind, class S>
__device__ void multiply(GroupSums<Kind, S>& sums, const HopperProduct& p, int group,
                         Barriers barriers, Turn& turn) {
  sums.clear();
  unsigned before = 0;
  for (int step = 0; step < p.steps; ++step, turn.next(p.room.stages)) {
    await(barriers.full(turn.at), turn.phase);
    const unsigned stage = stages_at() + static_cast<unsigned>(turn.at * S::kStage);
    sums.add(stage + static_cast<unsigned>(group * S::kGroupRows * S::kDepth),
             stage + S::kRows * S::kDepth);
    await_products<1>();
    if (step > 0) arrive_as_warp(before);
    before = barriers.empty(turn.at);
  }
  await_products<0>();
  arrive_as_warp(before);
}

template <class Kind, class S>
__device__ void multiply_tiles(const HopperProduct& p, Barriers barriers) {
  const int group = static_cast<int>(threadIdx.x) / kGroup;
  Turn turn, boxes;
  for (long long tile = blockIdx.x; tile < p.tiles; tile += gridDim.x, boxes.next(p.room.boxes)) {
    GroupSums<Kind, S> sums;
    multiply(sums, p, group, barriers, turn);
    await(barriers.ready(boxes.at), boxes.phase);
    unsigned char* const box = memory + p.room.stages * S::kStage + boxes.at * p.room.box_bytes;
    finish_group<S>(
        {p.finish, p.columns + small_place<S>(p.finish, tile).column, box + p.room.residual, box},
        group * S::kGroupRows, &sums.at[0][0]);
    show_to_others();
    arrive_as_warp(barriers.made(boxes.at));
  }
}

template <class Kind, class S>
__global__ void __launch_bounds__(kThreads, S::kBlocks)
    hopper_product(const __grid_constant__ HopperProduct p) {
  const Barriers barriers{shared_address(memory + p.room.barriers)};
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) barriers.init();
  __syncthreads();
  if (thread < kFetcher)
    multiply_tiles<Kind, S>(p, barriers);
  else if (thread == kFetcher)
    fetch_tiles<S>(p, barriers);
  else if (thread == kWriter)
    write_tiles<S>(p, barriers);
}

// ---- launches ------------------------------------------------------------------------------

// More boxes where tiles follow each other quickly, more stages otherwise.
template <class S>
Room room_of(const SmallFinish& f, int steps) {
  const int of_results = S::kRows * S::kColumns * bytes_of(f.to);
  const int of_residual = S::kRows * S::kColumns * bytes_of(f.residual_type);
  const bool adds = f.residual_type != SmallType::none;
  Room room{.box_bytes = of_results};
  if (adds && of_residual != of_results) {
    room.residual = of_results;
    room.box_bytes += of_residual;
  }
  const int all = S::kBytes - Barriers::kBytes;
  room.boxes = steps <= 4 ? 2 : 1;
  if (all - room.boxes * room.box_bytes < 2 * S::kStage) room.boxes = 1;
  room.stages = std::min((all - room.boxes * room.box_bytes) / S::kStage, Barriers::kMostStages);
  room.barriers = room.stages * S::kStage + room.boxes * room.box_bytes;
  room.bytes = room.barriers + Barriers::kBytes;
  return room;
}

template <class S>
int steps_of(const SmallRows& r) {
  return r.kernel_high * r.kernel_wide * ((r.channels + S::kDepth - 1) / S::kDepth);
}

bool lies_as_rows(const SmallRows& r) {
  return r.kernel_high * r.kernel_wide == 1 && r.stride_high == 1 && r.stride_wide == 1 &&
         r.out_high == r.high && r.out_wide == r.wide;
}

template <class S>
HopperProduct product_of(const SmallProduct& p) {
  const SmallRows& r = p.rows;
  const SmallFinish& f = p.finish;
  const auto map_of = [&](const void* x, SmallType type) {
    const int wide = std::min(128, S::kColumns * bytes_of(type));
    return map_rows(x, f.rows, std::int64_t{f.n} * bytes_of(type), {wide, S::kRows});
  };
  HopperProduct all{.rows = r,
                    .finish = f,
                    .columns = p.columns,
                    .is_image = !lies_as_rows(r),
                    .steps = steps_of<S>(r),
                    .tiles = tiles_of<S>(f),
                    .room = room_of<S>(f, steps_of<S>(r))};
  const BoxSize left{S::kDepth, S::kRows};
  all.left = all.is_image ? map_windows(r, f.rows / (std::int64_t{r.out_high} * r.out_wide), left)
                          : map_rows(r.x, f.rows, r.channels, left);
  all.right = map_rows(p.weight, f.n, r.row, {S::kDepth, S::kColumns});
  all.result = map_of(f.y, f.to);
  if (f.residual_type != SmallType::none) all.residual = map_of(f.residual, f.residual_type);
  return all;
}

int multiprocessors() {
  int device = 0, count = 0;
  device::check(cudaGetDevice(&device));
  device::check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

template <class Kind, class S>
void enqueue_shape(const SmallProduct& p, cudaStream_t stream) {
  const auto kernel = hopper_product<Kind, S>;
  const HopperProduct all = product_of<S>(p);
  device::check(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, all.room.bytes));
  const long long blocks = std::min<long long>(all.tiles, S::kBlocks * multiprocessors());
  launch(stream,
         {dim3(static_cast<unsigned>(blocks)), dim3(kThreads),
          static_cast<std::size_t>(all.room.bytes)},
         kernel, all);
}

// Calls what.template operator()<S>() with the shape of the tile, which is less deep where half of
// it would be empty.
template <class What>
auto with_shape(const SmallProduct& p, const What& what) {
  const auto with_columns = [&]<int kColumns, int kBlocks>() {
    const int left_over = p.rows.channels % 128;
    if (left_over > 0 && left_over <= 64)
      return what.template operator()<Shape<kColumns, 64, kBlocks>>();
    return what.template operator()<Shape<kColumns, 128, kBlocks>>();
  };
  switch (p.tile) {
    case SmallTile::hopper_narrow: return with_columns.template operator()<64, 2>();
    case SmallTile::hopper_wide: return with_columns.template operator()<256, 1>();
    default: return with_columns.template operator()<128, 2>();
  }
}

}  // namespace

bool hopper_takes(const SmallProduct& p) {
  const SmallFinish& f = p.finish;
  const bool quick = f.activation == Activation::none || f.activation == Activation::relu ||
                     f.activation == Activation::clip || f.activation == Activation::gelu;
  const auto can_be_mapped = [&](SmallType type) { return f.n * bytes_of(type) % 16 == 0; };
  return quick && f.to != SmallType::f8e4m3 && can_be_mapped(f.to) &&
         (f.residual_type == SmallType::none || can_be_mapped(f.residual_type)) &&
         (lies_as_rows(p.rows) || windows_can_be_mapped(p.rows)) &&
         with_shape(p, [&]<class S>() { return room_of<S>(f, steps_of<S>(p.rows)).stages; }) > 1;
}

void enqueue_on_hopper(const SmallProduct& p, CUstream_st* stream) {
  with_shape(p, [&]<class S>() {
    if (p.is_unsigned)
      enqueue_shape<UnsignedBySigned, S>(p, stream);
    else
      enqueue_shape<SignedBySigned, S>(p, stream);
  });
}

}  // namespace sluice::engine::cuda

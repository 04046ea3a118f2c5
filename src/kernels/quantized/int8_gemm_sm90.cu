// Products of bytes, or of halves, on Hopper. A block makes one tile after the other. One warp has
// boxes of both sides copied to shared memory, stage after stage; two groups of four warps multiply
// them there, 64 x 64 or 64 x 128 sums of 32 bytes at once, and put results into a box, where what
// they are to be added to may lie already; another warp has that fetched before and the results
// written. So tiles overlap, and nobody computes addresses.
//
// Limit: memory where k is small; the tensor cores where it is large, which the L2 cache feeds at
// about half of their pace. Seen on an H200: 3.1 of 4.5 TB/s, 1,060 of 1,979 TOPS. (A tile of 128 x
// 256 needs less of the cache, but one block alone does not hide what becomes of its sums, and was
// slower throughout. Of fp8 sums are narrower than f32 here, so that those are left to cuBLASLt.)
#include "kernels/common/launch.cuh"
#include "kernels/conv/tensor_map.h"
#include "kernels/ptx/wgmma.cuh"
#include "kernels/quantized/epilogue_sm90.cuh"
#include "kernels/quantized/int8_gemm_sm90.h"
#include "kernels/quantized/pipeline_sm90.cuh"

namespace sluice::kernels::cuda {
namespace {

// ---- products ------------------------------------------------------------------------------

template <class Kind, class S>
struct GroupSums {
  using Sum = typename Kind::Sum;
  Sum at[S::kColumns / 2];

  // Both sides as they lie in a stage; `left` where the group's rows begin.
  __device__ void add(unsigned left, unsigned right) {
    begin_products();
#pragma unroll
    for (unsigned k = 0; k < S::kDepth; k += 32)
      Kind::add(at, side_at<S::kDepth>(left + k), side_at<S::kDepth>(right + k));
    end_products();
  }

  __device__ void clear() {
#pragma unroll
    for (Sum& sum : at) sum = 0;
  }
};

// ---- a block -----------------------------------------------------------------------------------

extern __shared__ __align__(kPattern) unsigned char memory[];

struct HopperProduct {
  CUtensorMap left, right, residual, result;
  SmallRows rows;
  SmallFinish finish;
  InSteps in_steps;
  const SmallColumn* columns;
  bool is_image;  // left is of windows; of rows otherwise
  int steps;      // of kDepth, for each tile
  unsigned tiles;
  Room room;
};

__device__ unsigned stage_at(const Room& room, int stage) {
  return shared_address(memory) + static_cast<unsigned>(stage * room.stage_bytes);
}
__device__ unsigned char* box_at(const Room& room, int box) {
  return memory + room.stages * room.stage_bytes + box * room.box_bytes;
}
// Of a step, where it is kept.
template <class S>
__device__ unsigned right_at(const Room& room, int step) {
  return shared_address(memory) + static_cast<unsigned>(room.right + step * S::kRight);
}

// ---- the warp that fetches -----------------------------------------------------------------

// Both sides of a tile, kDepth bytes after the other: all channels of a place, then the next.
template <class S>
class Sides {
 public:
  __device__ Sides(const HopperProduct& p, SmallPlace place) : p_(p), place_(place) {
    if (!p.is_image) return;
    const SmallRows& r = p.rows;
    const auto wide = static_cast<unsigned>(r.out_wide), row = static_cast<unsigned>(place.row);
    const unsigned pixels = static_cast<unsigned>(r.out_high) * wide, pixel = row % pixels;
    window_.image = static_cast<int>(row / pixels);
    window_.y = static_cast<int>(pixel / wide) * r.stride_high - r.top;
    window_.x = static_cast<int>(pixel % wide) * r.stride_wide - r.left;
  }

  __device__ void fetch_left(unsigned to, unsigned barrier) const {
    if (p_.is_image)
      fetch_windows(to, p_.left, channel_, window_, barrier);
    else
      fetch_box(to, p_.left, channel_, place_.row, barrier);
  }
  __device__ void fetch_right(unsigned to, unsigned barrier) const {
    fetch_box(to, p_.right, first_ + channel_, place_.column, barrier);
  }

  // To the next step.
  __device__ void go() {
    const SmallRows& r = p_.rows;
    if ((channel_ += S::kDepth) < r.channels) return;
    channel_ = 0, first_ += r.channels;
    window_.across += r.dilation_wide;
    if (window_.across < r.kernel_wide * r.dilation_wide) return;
    window_.across = 0, window_.down += r.dilation_high;
  }

 private:
  const HopperProduct& p_;
  const SmallPlace place_;
  WindowPlace window_{};
  int first_ = 0, channel_ = 0;  // of the place, in a row of the right side; in the place
};

// The right side of all tiles, which have the same columns.
template <class S>
__device__ void fetch_right(const HopperProduct& p, Barriers barriers) {
  Sides<S> sides(p, {});
  arrive_with(barriers.right(), static_cast<unsigned>(p.room.right_bytes));
  for (int step = 0; step < p.steps; ++step, sides.go())
    sides.fetch_right(right_at<S>(p.room, step), barriers.right());
}

template <class S>
__device__ void fetch_tiles(const HopperProduct& p, Barriers barriers) {
  const bool keeps_right = p.room.right > 0;
  if (keeps_right) fetch_right<S>(p, barriers);
  Turn turn;
  for (unsigned tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
    Sides<S> sides(p, small_place<S>(p.finish, tile));
    for (int step = 0; step < p.steps; ++step, turn.next(p.room.stages), sides.go()) {
      const unsigned to = stage_at(p.room, turn.at), full = barriers.full(turn.at);
      await(barriers.empty(turn.at), turn.phase ^ 1);
      arrive_with(full, static_cast<unsigned>(p.room.stage_bytes));
      sides.fetch_left(to, full);
      if (!keeps_right) sides.fetch_right(to + S::kLeft, full);
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
__device__ void prepare(const HopperProduct& p, Barriers barriers, int box, unsigned tile) {
  if (tile >= p.tiles) return;
  if (p.finish.residual_type == SmallType::none) return arrive(barriers.ready(box));
  const SmallPlace place = small_place<S>(p.finish, tile);
  const int element = size_of(p.finish.residual_type);
  const unsigned to = shared_address(box_at(p.room, box) + p.room.residual);
  arrive_with(barriers.ready(box), static_cast<unsigned>(S::kRows * S::kColumns * element));
  each_strip<S>(element, [&](int byte, unsigned at) {
    fetch_box(to + at, p.residual, place.column * element + byte, place.row, barriers.ready(box));
  });
}

template <class S>
__device__ void write_tiles(const HopperProduct& p, Barriers barriers) {
  const int boxes = p.room.boxes, element = size_of(p.finish.to);
  for (int box = 0; box < boxes; ++box)
    prepare<S>(p, barriers, box, blockIdx.x + static_cast<unsigned>(box) * gridDim.x);
  Turn turn;
  for (unsigned tile = blockIdx.x; tile < p.tiles; tile += gridDim.x, turn.next(boxes)) {
    await(barriers.made(turn.at), turn.phase);
    const SmallPlace place = small_place<S>(p.finish, tile);
    each_strip<S>(element, [&](int byte, unsigned at) {
      write_box(p.result, place.column * element + byte, place.row,
                shared_address(box_at(p.room, turn.at)) + at);
    });
    await_written();
    prepare<S>(p, barriers, turn.at, tile + static_cast<unsigned>(boxes) * gridDim.x);
  }
}

// ---- the groups that multiply --------------------------------------------------------------

template <class Kind, class S>
__device__ void multiply(GroupSums<Kind, S>& sums, const HopperProduct& p, unsigned group,
                         Barriers barriers, Turn& turn) {
  sums.clear();
  unsigned before = 0;
  for (int step = 0; step < p.steps; ++step, turn.next(p.room.stages)) {
    await(barriers.full(turn.at), turn.phase);
    const unsigned left = stage_at(p.room, turn.at);
    sums.add(left + group * S::kGroupRows * S::kDepth,
             p.room.right > 0 ? right_at<S>(p.room, step) : left + S::kLeft);
    await_products<1>();
    if (step > 0) arrive_as_warp(before);
    before = barriers.empty(turn.at);
  }
  await_products<0>();
  arrive_as_warp(before);
}

template <class Kind, class S>
__device__ void multiply_tiles(const HopperProduct& p, Barriers barriers) {
  const unsigned group = threadIdx.x / kGroup;
  Turn turn, boxes;
  if (p.room.right > 0) await(barriers.right(), 0);
  for (unsigned tile = blockIdx.x; tile < p.tiles; tile += gridDim.x, boxes.next(p.room.boxes)) {
    GroupSums<Kind, S> sums;
    multiply(sums, p, group, barriers, turn);
    await(barriers.ready(boxes.at), boxes.phase);
    unsigned char* const box = box_at(p.room, boxes.at);
    finish_group<S>({p.finish, p.in_steps, p.columns + small_place<S>(p.finish, tile).column,
                     box + p.room.residual, box},
                    group * S::kGroupRows, sums.at);
    show_to_others();
    arrive_as_warp(barriers.made(boxes.at));
  }
}

template <class Kind, class S>
__global__ void __launch_bounds__(kThreads, kBlocks)
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

template <class S>
int steps_of(const SmallRows& r) {
  return r.kernel_high * r.kernel_wide * ((r.channels + S::kDepth - 1) / S::kDepth);
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
                    .in_steps = in_steps(f),
                    .columns = p.columns,
                    .is_image = !lies_as_rows(r),
                    .steps = steps_of<S>(r),
                    .tiles = tiles_of<S>(f),
                    .room = room_of<S>(f, steps_of<S>(r))};
  const BoxSize left{S::kDepth, S::kRows};
  all.left = all.is_image ? map_windows(r, f.rows / (std::int64_t{r.out_high} * r.out_wide), left)
                          : map_rows(r.x, f.rows, r.channels, left);
  all.right = map_rows(p.weight, (f.n + 15) / 16 * 16, r.row, {S::kDepth, S::kColumns});
  all.result = map_of(f.y, f.to);
  if (f.residual_type != SmallType::none) all.residual = map_of(f.residual, f.residual_type);
  return all;
}

template <class Kind, class S>
void enqueue_shape(const SmallProduct& p, cudaStream_t stream) {
  const auto kernel = hopper_product<Kind, S>;
  const HopperProduct all = product_of<S>(p);
  device::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  const unsigned blocks = std::min(all.tiles, static_cast<unsigned>(kBlocks * multiprocessors()));
  launch(stream, {dim3(blocks), dim3(kThreads), static_cast<std::size_t>(all.room.bytes)}, kernel,
         all);
}

// Calls what.template operator()<S>() with the shape of the tile, which is less deep where half of
// it would be empty.
template <class What>
auto with_shape(const SmallProduct& p, const What& what) {
  const auto with_columns = [&]<int kColumns>() {
    const int left_over = p.rows.channels % 128;
    if (left_over > 0 && left_over <= 64) return what.template operator()<Shape<kColumns, 64>>();
    return what.template operator()<Shape<kColumns, 128>>();
  };
  switch (p.tile) {
    case SmallTile::hopper_narrow: return with_columns.template operator()<64>();
    default: return with_columns.template operator()<128>();
  }
}

}  // namespace

bool hopper_takes(const SmallProduct& p) {
  const SmallFinish& f = p.finish;
  const bool quick = f.activation == Activation::none || f.activation == Activation::relu ||
                     f.activation == Activation::clip ||
                     (f.activation == Activation::gelu && f.to != SmallType::f32);
  const auto can_be_mapped = [&](SmallType type) { return f.n * bytes_of(type) % 16 == 0; };
  return quick && !f.has_large_shift && f.to != SmallType::f8e4m3 && can_be_mapped(f.to) &&
         (f.residual_type == SmallType::none || can_be_mapped(f.residual_type)) &&
         (lies_as_rows(p.rows) || windows_can_be_mapped(p.rows)) &&
         with_shape(p, [&]<class S>() { return room_of<S>(f, steps_of<S>(p.rows)).stages; }) > 1;
}

void enqueue_on_hopper(const SmallProduct& p, CUstream_st* stream) {
  with_shape(p, [&]<class S>() {
    switch (p.from) {
      case SmallType::u8: return enqueue_shape<UnsignedBySigned, S>(p, stream);
      case SmallType::f16: return enqueue_shape<Halves, S>(p, stream);
      case SmallType::bf16: return enqueue_shape<BHalves, S>(p, stream);
      default: return enqueue_shape<SignedBySigned, S>(p, stream);
    }
  });
}

}  // namespace sluice::kernels::cuda

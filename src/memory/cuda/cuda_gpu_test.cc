#include <cuda_runtime_api.h>

#include "device/cuda/check.h"
#include "device/cuda/stream.h"
#include "memory/alloc/allocator_conformance.h"
#include "memory/cuda/cuda.h"
#include "memory/pool/pool.h"

namespace sluice::memory {
namespace {

constexpr std::size_t kMiB = 1 << 20;
constexpr int kDevice = 0;

// ---- every source keeps the promises of an Allocator ---------------------------------

struct MappedPool : testing::Test {
  static constexpr bool kTouchable = false;
  std::unique_ptr<Arena> arena = make_cuda_arena(kDevice, 1024 * kMiB, 2 * kMiB);
  Pool pool{"mapped", *arena, {.growth = 4 * kMiB, .ceiling = 256 * kMiB}};
  Allocator& allocator() { return pool; }
};
struct FixedPool : testing::Test {
  static constexpr bool kTouchable = false;
  std::unique_ptr<Arena> arena = make_cuda_fixed_arena(kDevice, 256 * kMiB);
  Pool pool{"fixed", *arena, {.growth = 4 * kMiB}};
  Allocator& allocator() { return pool; }
};
struct PinnedPool : testing::Test {
  static constexpr bool kTouchable = true;
  std::unique_ptr<Arena> arena = make_pinned_arena(256 * kMiB, 2 * kMiB);
  Pool pool{"pinned", *arena, {.growth = 4 * kMiB, .ceiling = 64 * kMiB}};
  Allocator& allocator() { return pool; }
};
struct CudaMalloc : testing::Test {
  static constexpr bool kTouchable = false;
  std::unique_ptr<Allocator> made = make_cuda_allocator(kDevice);
  Allocator& allocator() { return *made; }
};
struct CudaMallocAsync : testing::Test {
  static constexpr bool kTouchable = false;
  device::Stream stream{{kDevice}};
  std::unique_ptr<Allocator> made = make_cuda_async_allocator(kDevice, stream.get());
  Allocator& allocator() { return *made; }
};
struct StreamOrdered : MappedPool {
  device::Stream stream{{kDevice}};
  std::unique_ptr<Fences> fences = make_cuda_fences(kDevice);
  StreamOrderedPool ordered{pool, *fences};
  OnStream on{ordered, reinterpret_cast<StreamId>(stream.get())};
  Allocator& allocator() { return on; }
};

using Sources =
    testing::Types<MappedPool, FixedPool, PinnedPool, CudaMalloc, CudaMallocAsync, StreamOrdered>;
INSTANTIATE_TYPED_TEST_SUITE_P(Cuda, AllocatorConformance, Sources);

// ---- what is special about GPU memory ---------------------------------------------------

// All bytes of a block of GPU memory are `value`.
testing::AssertionResult holds(const void* block, std::size_t bytes, unsigned char value) {
  std::vector<unsigned char> host(bytes);
  device::check(cudaMemcpy(host.data(), block, bytes, cudaMemcpyDeviceToHost));
  for (std::size_t i = 0; i < bytes; ++i)
    if (host[i] != value)
      return testing::AssertionFailure() << "byte " << i << " is " << int{host[i]};
  return testing::AssertionSuccess();
}

TEST(CudaPool, RemapsHolesAtItsCeilingAndLeavesBlocksInUseAlone) {
  const auto arena = make_cuda_arena(kDevice, 1024 * kMiB, 2 * kMiB);
  Pool pool("mapped", *arena, {.growth = 2 * kMiB, .ceiling = 64 * kMiB});
  std::vector<Buffer> blocks;
  for (int i = 0; i < 32; ++i) {
    blocks.emplace_back(pool, 2 * kMiB);
    device::check(cudaMemset(blocks.back().data(), i, blocks.back().bytes()));
  }
  for (std::size_t i = 0; i < blocks.size(); i += 2) blocks[i].reset();  // 32 MiB in 16 pieces
  const Buffer large(pool, 24 * kMiB);
  device::check(cudaMemset(large.data(), 0xee, large.bytes()));
  for (std::size_t i = 1; i < blocks.size(); i += 2)
    EXPECT_TRUE(holds(blocks[i].data(), blocks[i].bytes(), static_cast<unsigned char>(i)));
  EXPECT_TRUE(holds(large.data(), large.bytes(), 0xee));
  EXPECT_GE(pool.statistics().remapped_bytes, 24 * kMiB);
  EXPECT_LE(pool.statistics().peak_committed, 64 * kMiB);
}

std::size_t free_on_card() {
  std::size_t free = 0, total = 0;
  device::check(cudaMemGetInfo(&free, &total));
  return free;
}

TEST(CudaPool, TrimmingGivesMemoryBackToTheCard) {
  const auto arena = make_cuda_arena(kDevice, 4096 * kMiB);
  Pool pool("mapped", *arena, {});
  { const Buffer block(pool, 1024 * kMiB); }
  const auto before = free_on_card();
  EXPECT_GE(pool.trim(), 1024 * kMiB);
  EXPECT_GE(free_on_card(), before + 1000 * kMiB);
}

TEST(CudaPool, MovesBlocksWhoseOwnerCopiesThem) {
  const auto arena = make_cuda_arena(kDevice, 256 * kMiB, 2 * kMiB);
  Pool pool("mapped", *arena, {.growth = 2 * kMiB});
  Buffer low(pool, 8 * kMiB);
  void* high = pool.allocate(8 * kMiB);
  device::check(cudaMemset(high, 7, 8 * kMiB));
  pool.set_mover(high, 8 * kMiB, [&](void* from, void* to, std::size_t bytes) {
    device::check(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice));
    high = to;
  });
  low.reset();
  EXPECT_EQ(pool.defragment().blocks, 1u);
  EXPECT_EQ(high, arena->base());
  EXPECT_TRUE(holds(high, 8 * kMiB, 7));
  pool.deallocate(high, 8 * kMiB);
}

// The first stream is kept busy, so that a block handed over too early would be
// overwritten by it after the second stream has written its own value.
TEST(CudaStreams, ABlockFreedOnABusyStreamIsNotOverwrittenOnAnother) {
  constexpr std::size_t kBytes = 8 * kMiB;
  const auto arena = make_cuda_arena(kDevice, 2048 * kMiB);
  Pool pool("mapped", *arena, {.ceiling = 512 * kMiB});
  const auto fences = make_cuda_fences(kDevice);
  const device::Stream a({kDevice}), b({kDevice});
  StreamOrderedPool ordered(pool, *fences);  // waits for the streams when it ends
  const auto on = [](const device::Stream& s) { return reinterpret_cast<StreamId>(s.get()); };
  const Buffer work(pool, 256 * kMiB);
  for (int round = 0; round < 50; ++round) {
    void* first = ordered.allocate(kBytes, on(a));
    for (int i = 0; i < 20; ++i)  // some milliseconds before the block is touched
      device::check(cudaMemsetAsync(work.data(), i, work.bytes(), a.get()));
    device::check(cudaMemsetAsync(first, 1, kBytes, a.get()));
    ordered.deallocate(first, kBytes, on(a));
    void* second = ordered.allocate(kBytes, on(b));
    device::check(cudaMemsetAsync(second, 2, kBytes, b.get()));
    b.wait();
    a.wait();
    ASSERT_TRUE(holds(second, kBytes, 2)) << "round " << round;
    ordered.deallocate(second, kBytes, on(b));
  }
}

}  // namespace
}  // namespace sluice::memory

// A build without CUDA: every GPU source throws unavailable.
#include "base/error.h"
#include "memory/cuda/cuda.h"

namespace sluice::memory {

namespace {

[[noreturn]] void no_cuda() {
  throw Error(Code::unavailable, "this build has no CUDA; configure with --preset cuda");
}

}  // namespace

std::unique_ptr<Arena> make_cuda_arena(int, std::size_t, std::size_t) { no_cuda(); }
std::unique_ptr<Arena> make_cuda_fixed_arena(int, std::size_t) { no_cuda(); }
std::unique_ptr<Arena> make_pinned_arena(std::size_t, std::size_t) { no_cuda(); }
std::unique_ptr<Allocator> make_cuda_allocator(int) { no_cuda(); }
std::unique_ptr<Allocator> make_cuda_async_allocator(int, CUstream_st*) { no_cuda(); }
std::unique_ptr<Allocator> make_pinned_allocator() { no_cuda(); }
std::unique_ptr<Fences> make_cuda_fences(int) { no_cuda(); }

}  // namespace sluice::memory

// GPU memory and pinned host memory as sources for pools and adaptors. `device` is
// CUDA's number of the GPU. In a build without CUDA every function throws unavailable.
#pragma once

#include <cstddef>
#include <memory>

#include "memory/alloc/allocator.h"
#include "memory/alloc/arena.h"
#include "memory/pool/stream_ordered.h"

struct CUstream_st;  // CUDA's stream, so that this header needs no CUDA

namespace sluice::memory {

// Addresses on a GPU with memory mapped behind them granule by granule (the driver's
// virtual memory interface). `granule` is rounded up to what the card can map; 0 takes
// a size that keeps mapping cheap. Throws unavailable where the card cannot.
std::unique_ptr<Arena> make_cuda_arena(int device, std::size_t addresses, std::size_t granule = 0);

// For cards without virtual memory management: `bytes` by cudaMalloc, all committed from the
// start. Committing only counts.
std::unique_ptr<Arena> make_cuda_fixed_arena(int device, std::size_t bytes);

// Host memory that the GPU copies from and to without a detour; pinned as it is committed.
std::unique_ptr<Arena> make_pinned_arena(std::size_t addresses, std::size_t granule = 32 << 20);

// The driver's own allocators, behind the same interface: what a pool is measured
// against, and what others may prefer. All are safe to share between threads.
std::unique_ptr<Allocator> make_cuda_allocator(int device);  // cudaMalloc
// cudaMallocAsync with a pool of its own that keeps what is freed until trim(). Blocks
// may be used on `stream` only, or after it was waited for. The stream must outlive it.
std::unique_ptr<Allocator> make_cuda_async_allocator(int device, CUstream_st* stream);
std::unique_ptr<Allocator> make_pinned_allocator();  // cudaHostAlloc

// For a StreamOrderedPool over GPU memory; a StreamId is a cudaStream_t.
std::unique_ptr<Fences> make_cuda_fences(int device);

}  // namespace sluice::memory

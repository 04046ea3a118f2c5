// These kernels need compute capability 6.0. The copy gives each block
// one contiguous piece: neighbouring threads touch neighbouring 16 bytes, and a
// thread issues all its loads before its first store, so that enough reads are
// in flight to hide the memory's latency without any shared memory.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "device/bench/bench_kernels.h"
#include "device/cuda/launch.cuh"

namespace sluice::device {

namespace {

constexpr unsigned kThreads = 256;

unsigned blocks_for(std::size_t items, std::size_t per_block) {
  const std::size_t blocks = (items + per_block - 1) / per_block;
  require(blocks <= 0x7fffffff, "bench: too much data for one launch");
  return static_cast<unsigned>(blocks);
}

// Enough blocks to fill any GPU; the kernels below stride over the rest.
unsigned striding_blocks(std::size_t items) {
  return static_cast<unsigned>(std::clamp<std::size_t>((items + kThreads - 1) / kThreads, 1, 8192));
}

__device__ std::size_t thread_index() { return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ std::size_t thread_count() { return std::size_t{gridDim.x} * blockDim.x; }

// The same function as mix() of bench_stats.h, which device code may not call.
__device__ std::uint64_t mix_bits(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// ---- copy --------------------------------------------------------------------

// grid: one block per kThreads * kLoads vectors
template <int kLoads>
__global__ void __launch_bounds__(kThreads)
    copy_vectors(uint4* __restrict__ to, const uint4* __restrict__ from, std::size_t count) {
  const std::size_t first = std::size_t{blockIdx.x} * kThreads * kLoads + threadIdx.x;
  if (first + std::size_t{kLoads - 1} * kThreads < count) {
    uint4 held[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) held[i] = __ldcs(from + first + i * kThreads);
#pragma unroll
    for (int i = 0; i < kLoads; ++i) __stcs(to + first + i * kThreads, held[i]);
  } else {
    for (std::size_t i = first; i < count; i += kThreads) to[i] = from[i];
  }
}

__global__ void copy_bytes(unsigned char* to, const unsigned char* from, std::size_t count) {
  for (std::size_t i = thread_index(); i < count; i += thread_count()) to[i] = from[i];
}

void copy_plain(unsigned char* to, const unsigned char* from, std::size_t bytes, On on) {
  if (bytes == 0) return;
  launch(on, {striding_blocks(bytes), kThreads}, copy_bytes, to, from, bytes);
}

template <int kLoads>
void copy_aligned(unsigned char* to, const unsigned char* from, std::size_t vectors, On on) {
  if (vectors == 0) return;
  launch(on, {blocks_for(vectors, kThreads * kLoads), kThreads}, copy_vectors<kLoads>,
         reinterpret_cast<uint4*>(to), reinterpret_cast<const uint4*>(from), vectors);
}

// ---- random data ---------------------------------------------------------------

__global__ void random_bytes(unsigned char* to, std::size_t bytes, std::uint64_t seed) {
  const std::size_t words = (bytes + 7) / 8;
  for (std::size_t w = thread_index(); w < words; w += thread_count()) {
    std::uint64_t bits = mix_bits(seed + w);
    for (std::size_t i = w * 8; i < bytes && i < w * 8 + 8; ++i, bits >>= 8)
      to[i] = static_cast<unsigned char>(bits);
  }
}

// Box and Muller; the two uniforms are never zero.
__device__ float normal(std::uint64_t bits) {
  const float u = (static_cast<float>(bits & 0xffffff) + 0.5f) * 0x1p-24f;
  const float v = static_cast<float>((bits >> 24) & 0xffffff) * 0x1p-24f;
  return sqrtf(-2 * logf(u)) * cospif(2 * v);
}

__device__ void draw(double& x, std::uint64_t bits) {
  x = normal(bits) + normal(mix_bits(~bits)) * 0x1p-24;  // fills the low bits as well
}
__device__ void draw(float& x, std::uint64_t bits) { x = normal(bits); }
__device__ void draw(__nv_bfloat16& x, std::uint64_t bits) { x = __float2bfloat16(normal(bits)); }
__device__ void draw(__half& x, std::uint64_t bits) { x = __float2half(normal(bits)); }
__device__ void draw(__nv_fp8_e4m3& x, std::uint64_t bits) { x = __nv_fp8_e4m3(normal(bits)); }
__device__ void draw(signed char& x, std::uint64_t bits) {
  x = static_cast<signed char>(static_cast<int>(bits % 255) - 127);
}

template <class T>
__global__ void random_values(T* to, std::size_t count, std::uint64_t seed) {
  for (std::size_t i = thread_index(); i < count; i += thread_count())
    draw(to[i], mix_bits(seed + i));
}

template <class T>
void fill_as(void* to, std::size_t count, std::uint64_t seed, On on) {
  launch(on, {striding_blocks(count), kThreads}, random_values<T>, static_cast<T*>(to), count,
         seed);
}

// ---- checks --------------------------------------------------------------------

__global__ void differing(const unsigned char* a, const unsigned char* b, std::size_t bytes,
                          unsigned long long* total) {
  unsigned long long mine = 0;
  for (std::size_t i = thread_index(); i < bytes; i += thread_count()) mine += a[i] != b[i];
  if (mine != 0) atomicAdd(total, mine);
}

template <class Word>
__global__ void equal_to(const Word* data, std::size_t count, Word poison,
                         unsigned long long* total) {
  unsigned long long mine = 0;
  for (std::size_t i = thread_index(); i < count; i += thread_count()) mine += data[i] == poison;
  if (mine != 0) atomicAdd(total, mine);
}

template <class Word>
void count_as(const void* data, std::size_t count, unsigned char poison, unsigned long long* total,
              On on) {
  Word word;
  std::memset(&word, poison, sizeof word);
  launch(on, {striding_blocks(count), kThreads}, equal_to<Word>, static_cast<const Word*>(data),
         count, word, total);
}

__global__ void nothing() {}

template <class T>
double read_as(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(value);
}

double bf16_at(const void* at) {
  __nv_bfloat16 value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(__bfloat162float(value));
}

double fp16_at(const void* at) {
  __half value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(__half2float(value));
}

double fp8_at(const void* at) {
  __nv_fp8_e4m3 value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(static_cast<float>(value));
}

}  // namespace

void copy_cuda(void* to, const void* from, std::size_t bytes, CopyShape shape,
               const Stream& stream) {
  auto* out = static_cast<unsigned char*>(to);
  const auto* in = static_cast<const unsigned char*>(from);
  const auto lead_of = [](const void* p) { return -reinterpret_cast<std::uintptr_t>(p) % 16; };
  if (lead_of(to) != lead_of(from)) return copy_plain(out, in, bytes, stream);

  const std::size_t head = std::min<std::size_t>(lead_of(to), bytes);
  const std::size_t vectors = (bytes - head) / 16;
  const std::size_t done = head + vectors * 16;
  copy_plain(out, in, head, stream);
  switch (shape) {
    case CopyShape::four: copy_aligned<4>(out + head, in + head, vectors, stream); break;
    case CopyShape::eight: copy_aligned<8>(out + head, in + head, vectors, stream); break;
    case CopyShape::sixteen: copy_aligned<16>(out + head, in + head, vectors, stream); break;
  }
  copy_plain(out + done, in + done, bytes - done, stream);
}

void fill_random_bytes(void* to, std::size_t bytes, std::uint64_t seed, const Stream& stream) {
  if (bytes == 0) return;
  launch(stream, {striding_blocks(bytes / 8 + 1), kThreads}, random_bytes,
         static_cast<unsigned char*>(to), bytes, seed);
}

void fill_random(void* to, std::size_t count, Precision precision, std::uint64_t seed,
                 const Stream& stream) {
  switch (precision) {
    case Precision::fp64: return fill_as<double>(to, count, seed, stream);
    case Precision::fp32:
    case Precision::tf32: return fill_as<float>(to, count, seed, stream);
    case Precision::bf16: return fill_as<__nv_bfloat16>(to, count, seed, stream);
    case Precision::fp16: return fill_as<__half>(to, count, seed, stream);
    case Precision::fp8: return fill_as<__nv_fp8_e4m3>(to, count, seed, stream);
    case Precision::int8: return fill_as<signed char>(to, count, seed, stream);
  }
}

void count_differences(const void* a, const void* b, std::size_t bytes,
                       unsigned long long* differences, const Stream& stream) {
  launch(stream, {striding_blocks(bytes), kThreads}, differing,
         static_cast<const unsigned char*>(a), static_cast<const unsigned char*>(b), bytes,
         differences);
}

void count_poisoned(const void* data, std::size_t count, std::size_t element_bytes,
                    unsigned char poison, unsigned long long* unwritten, const Stream& stream) {
  switch (element_bytes) {
    case 2: return count_as<std::uint16_t>(data, count, poison, unwritten, stream);
    case 4: return count_as<std::uint32_t>(data, count, poison, unwritten, stream);
    case 8: return count_as<std::uint64_t>(data, count, poison, unwritten, stream);
    default: throw Error(Code::internal, "count_poisoned: elements of 2, 4 or 8 bytes only");
  }
}

void launch_nothing(const Stream& stream) { launch(stream, {1, 32}, nothing); }

std::size_t input_bytes(Precision precision) noexcept {
  switch (precision) {
    case Precision::fp64: return 8;
    case Precision::fp32:
    case Precision::tf32: return 4;
    case Precision::bf16:
    case Precision::fp16: return 2;
    case Precision::fp8:
    case Precision::int8: return 1;
  }
  return 0;
}

double decode_input(const void* at, Precision precision) {
  switch (precision) {
    case Precision::fp64: return read_as<double>(at);
    case Precision::fp32:
    case Precision::tf32: return read_as<float>(at);
    case Precision::bf16: return bf16_at(at);
    case Precision::fp16: return fp16_at(at);
    case Precision::fp8: return fp8_at(at);
    case Precision::int8: return read_as<signed char>(at);
  }
  return 0;
}

std::size_t output_bytes(Precision precision) noexcept {
  switch (precision) {
    case Precision::fp64: return 8;
    case Precision::fp32:
    case Precision::tf32:
    case Precision::int8: return 4;
    case Precision::bf16:
    case Precision::fp16:
    case Precision::fp8: return 2;
  }
  return 0;
}

double decode_output(const void* at, Precision precision) {
  switch (precision) {
    case Precision::fp64: return read_as<double>(at);
    case Precision::fp32:
    case Precision::tf32: return read_as<float>(at);
    case Precision::int8: return read_as<std::int32_t>(at);
    case Precision::fp16: return fp16_at(at);
    case Precision::bf16:
    case Precision::fp8: return bf16_at(at);
  }
  return 0;
}

}  // namespace sluice::device

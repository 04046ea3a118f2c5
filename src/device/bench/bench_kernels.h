// The GPU benchmarks' own kernels: a copy, random data, and the checks that a
// result was written and is right. All pointers are device pointers; each call
// enqueues on `stream` and returns.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/catalogue.h"

namespace sluice::device {

class Stream;

// The number of 16-byte loads a thread has in flight before its first store.
enum class CopyShape { four, eight, sixteen };

// to[0..bytes) = from[0..bytes), any size and alignment; the ranges must not
// overlap. Fast when both share their alignment within 16 bytes, as whole
// allocations do; otherwise byte by byte.
void copy_cuda(void* to, const void* from, std::size_t bytes, CopyShape shape,
               const Stream& stream);

// Random bytes, the same for the same seed.
void fill_random_bytes(void* to, std::size_t bytes, std::uint64_t seed, const Stream& stream);

// Random values of `precision` as GEMM inputs: normally
// distributed with deviation 1 (fp64 to fp8), uniform in -127..127 (int8).
void fill_random(void* to, std::size_t count, Precision precision, std::uint64_t seed,
                 const Stream& stream);

// Adds to *differences the number of bytes in which the ranges differ.
void count_differences(const void* a, const void* b, std::size_t bytes,
                       unsigned long long* differences, const Stream& stream);

// Adds to *unwritten the elements (2, 4 or 8 bytes each) that still consist of
// the byte `poison` alone.
void count_poisoned(const void* data, std::size_t count, std::size_t element_bytes,
                    unsigned char poison, unsigned long long* unwritten, const Stream& stream);

// A kernel that does nothing: the cost of a launch alone.
void launch_nothing(const Stream& stream);

// Bytes of one input element; the host's reading of one.
std::size_t input_bytes(Precision precision) noexcept;
double decode_input(const void* at, Precision precision);

// The output type of a GEMM in `precision`: fp64 -> fp64, fp32 and tf32 ->
// fp32, bf16 and fp8 -> bf16, fp16 -> fp16, int8 -> int32.
std::size_t output_bytes(Precision precision) noexcept;
double decode_output(const void* at, Precision precision);

}  // namespace sluice::device

// The benchmarks' kernels and GEMMs against the CPU. Sizes are small, so that
// compute-sanitizer gets through them too.
#include <gmock/gmock.h>

#include <cstring>
#include <vector>

#include "base/error.h"
#include "device/bench/bench_gemm.h"
#include "device/bench/bench_kernels.h"
#include "device/bench/bench_stats.h"

namespace sluice::device {
namespace {

using Bytes = std::vector<unsigned char>;

class OnGpu : public testing::Test {
 protected:
  DeviceScope on{DeviceId{0}};
  Stream stream{DeviceId{0}};

  Bytes fetch(const void* from, std::size_t bytes) {
    Bytes host(bytes);
    stream.wait();
    check(cudaMemcpy(host.data(), from, bytes, cudaMemcpyDeviceToHost));
    return host;
  }
};

unsigned char* at(const DeviceBuffer& buffer, std::size_t offset) {
  return static_cast<unsigned char*>(buffer.get()) + offset;
}

struct CopyCase {
  std::size_t bytes, to_offset, from_offset;
};

class Copy : public OnGpu, public testing::WithParamInterface<CopyCase> {};

TEST_P(Copy, MovesExactlyTheRequestedBytes) {
  const auto [bytes, to_offset, from_offset] = GetParam();
  constexpr std::size_t kGuard = 64;
  const auto from = device_buffer(bytes + from_offset + kGuard);
  const auto to = device_buffer(bytes + to_offset + kGuard);
  fill_random_bytes(from.get(), bytes + from_offset + kGuard, 7, stream);
  const auto source = fetch(from.get(), bytes + from_offset + kGuard);
  for (const auto shape : {CopyShape::four, CopyShape::eight, CopyShape::sixteen}) {
    check(cudaMemsetAsync(to.get(), 0xee, bytes + to_offset + kGuard, stream.get()));
    copy_cuda(at(to, to_offset), at(from, from_offset), bytes, shape, stream);
    Bytes want(bytes + to_offset + kGuard, 0xee);
    std::memcpy(want.data() + to_offset, source.data() + from_offset, bytes);
    EXPECT_EQ(fetch(to.get(), want.size()), want);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Copy,
                         testing::Values(CopyCase{0, 0, 0}, CopyCase{1, 0, 0}, CopyCase{15, 0, 0},
                                         CopyCase{16, 0, 0}, CopyCase{17, 0, 0},
                                         CopyCase{4096, 0, 0}, CopyCase{65536, 0, 0},
                                         CopyCase{65537, 0, 0}, CopyCase{1000003, 0, 0},
                                         CopyCase{1000003, 5, 5}, CopyCase{7, 13, 13},
                                         CopyCase{1000003, 1, 0}, CopyCase{1000003, 3, 8},
                                         CopyCase{1 << 20, 16, 32}));

TEST_F(OnGpu, RandomBytesMatchTheCpuGenerator) {
  constexpr std::size_t kBytes = 1003;
  const auto buffer = device_buffer(kBytes);
  fill_random_bytes(buffer.get(), kBytes, 99, stream);
  const auto got = fetch(buffer.get(), kBytes);
  for (std::size_t i = 0; i < kBytes; ++i)
    ASSERT_EQ(got[i], static_cast<unsigned char>(mix(99 + i / 8) >> (i % 8 * 8))) << i;
}

TEST_F(OnGpu, DifferencesAreCountedByteByByte) {
  constexpr std::size_t kBytes = 10007;
  const auto a = device_buffer(kBytes), b = device_buffer(kBytes), n = device_buffer(8);
  fill_random_bytes(a.get(), kBytes, 1, stream);
  copy_cuda(b.get(), a.get(), kBytes, CopyShape::eight, stream);
  const auto original = fetch(b.get(), kBytes);
  for (const std::size_t i : {std::size_t{0}, std::size_t{5000}, kBytes - 1}) {
    const auto flipped = static_cast<unsigned char>(original[i] ^ 1);
    check(cudaMemcpy(at(b, i), &flipped, 1, cudaMemcpyHostToDevice));
  }
  check(cudaMemset(n.get(), 0, 8));
  check(cudaDeviceSynchronize());
  count_differences(a.get(), b.get(), kBytes, static_cast<unsigned long long*>(n.get()), stream);
  EXPECT_EQ(fetch(n.get(), 8)[0], 3);
}

TEST_F(OnGpu, UnwrittenElementsAreFound) {
  for (const std::size_t width : {2u, 4u, 8u}) {
    const auto data = device_buffer(100 * width), n = device_buffer(8);
    check(cudaMemset(data.get(), 0x01, 100 * width));
    check(cudaMemset(at(data, 40 * width), 0xff, 2 * width));
    check(cudaMemset(n.get(), 0, 8));
    check(cudaDeviceSynchronize());
    count_poisoned(data.get(), 100, width, 0xff, static_cast<unsigned long long*>(n.get()), stream);
    EXPECT_EQ(fetch(n.get(), 8)[0], 2) << width;
  }
}

class RandomValues : public OnGpu, public testing::WithParamInterface<Precision> {};

TEST_P(RandomValues, AreFiniteSpreadOutAndNeverAllZero) {
  constexpr std::size_t kCount = 40001;
  const auto width = input_bytes(GetParam());
  const auto buffer = device_buffer(kCount * width);
  fill_random(buffer.get(), kCount, GetParam(), 3, stream);
  const auto raw = fetch(buffer.get(), kCount * width);
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double v = decode_input(raw.data() + i * width, GetParam());
    ASSERT_TRUE(std::isfinite(v)) << i;
    sum += v, squares += v * v;
  }
  const double deviation = GetParam() == Precision::int8 ? 73.6 : 1;
  EXPECT_NEAR(sum / kCount, 0, 0.03 * deviation);
  EXPECT_NEAR(std::sqrt(squares / kCount), deviation, 0.03 * deviation);
}

constexpr Precision kAll[] = {Precision::fp64, Precision::fp32, Precision::tf32, Precision::bf16,
                              Precision::fp16, Precision::fp8,  Precision::int8};
std::string name_of(const testing::TestParamInfo<Precision>& info) {
  return std::string(to_string(info.param));
}
INSTANTIATE_TEST_SUITE_P(All, RandomValues, testing::ValuesIn(kAll), name_of);

class GemmTest : public OnGpu, public testing::WithParamInterface<Precision> {
 protected:
  // Every algorithm the library proposes must be right, not only the fastest.
  void expect_right(GemmShape shape) try {
    const CublasLt library(DeviceId{0}, {});
    GemmProblem problem(library, GetParam(), shape, 3, stream);
    for (std::size_t algorithm = 0; algorithm < problem.algorithms(); ++algorithm)
      EXPECT_LE(problem.error(algorithm, 11 + algorithm, stream), gemm_tolerance(GetParam()))
          << "algorithm " << algorithm;
  } catch (const Error& e) {
    if (e.code() != Code::unavailable) throw;
    GTEST_SKIP() << e.what();
  }
};

TEST_P(GemmTest, MatchesTheSameGemmInDouble) { expect_right({256, 512, 384}); }
TEST_P(GemmTest, MatchesWhenTheSizesAreNotTileMultiples) { expect_right({272, 144, 208}); }
TEST_P(GemmTest, MatchesWhenItIsTallAndThin) { expect_right({1040, 16, 64}); }

INSTANTIATE_TEST_SUITE_P(All, GemmTest, testing::ValuesIn(kAll), name_of);

TEST_F(OnGpu, AnOddSizedGemmIsCorrectToo) {
  try {
    const CublasLt library(DeviceId{0}, {});
    for (const auto precision : {Precision::fp64, Precision::fp32}) {
      GemmProblem problem(library, precision, {33, 17, 101}, 1, stream);
      EXPECT_LE(problem.error(0, 5, stream), gemm_tolerance(precision));
    }
  } catch (const Error& e) {
    if (e.code() != Code::unavailable) throw;
    GTEST_SKIP() << e.what();
  }
}

}  // namespace
}  // namespace sluice::device

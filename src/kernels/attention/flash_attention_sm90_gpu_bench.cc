// Times of varlen attention by the Hopper kernel and by the one for 8.0. Not run by default:
//   kernels_gpu_test --gtest_also_run_disabled_tests --gtest_filter=FlashAttentionSm90Bench.*
// A line has the head size, what the lengths are, the kernel, microseconds and TFLOP/s. About
// 163,840 tokens, 12 heads, f16. bench/attention_gpu_bench.py compares them with PyTorch's.
#include <gmock/gmock.h>

#include <cstdio>
#include <memory>

#include "kernels/attention/flash_attention_for_gpu_tests.h"

namespace sluice::kernels::cuda {
namespace {

constexpr int kHeads = 12, kTokens = 163840;

// Articles: lognormal lengths, mean 315, at most 512.
std::vector<std::int32_t> articles() {
  std::mt19937 random(1);
  std::lognormal_distribution<double> lengths(std::log(315) - 0.18, 0.6);
  std::vector<std::int32_t> made(522);
  for (std::int32_t& length : made)
    length = static_cast<std::int32_t>(std::clamp(lengths(random), 16.0, 512.0));
  return made;
}

double flops(const std::vector<std::int32_t>& lengths, int head_size) {
  double scores = 0;
  for (const std::int32_t length : lengths) scores += static_cast<double>(length) * length;
  return scores * 4 * kHeads * head_size;
}

void measure(const std::string& what, const std::vector<std::int32_t>& lengths, int head_size,
             const device::Stream& stream) {
  const PackedSequences of(lengths, kHeads, head_size, RealType::f16, 1);
  const AttentionCall call = of.call();
  constexpr int kCalls = 4, kRepeats = 11;
  const LaunchArgs args{.stream = stream.get()};
  LaunchArgs queued = args;
  queued.queue = of.queue();
  std::vector<std::unique_ptr<TimedGraph>> candidates;
  candidates.push_back(std::make_unique<TimedGraph>(
      "sm_90a", stream, kCalls, [&](int) { flash_attention_sm90(RealType::f16, call, queued); }));
  candidates.push_back(
      std::make_unique<TimedGraph>("sm_90a without queue", stream, kCalls,
                                   [&](int) { flash_attention_sm90(RealType::f16, call, args); }));
  candidates.push_back(std::make_unique<TimedGraph>("sm_80", stream, kCalls,
                                                    [&](int) { flash_attention_f16(call, args); }));
  for (int round = 0; round < kRepeats; ++round)
    for (const auto& candidate : candidates) candidate->run();
  for (const auto& candidate : candidates)
    std::printf("head size %d, %s, %s: %.1f us, %.1f TFLOP/s\n", head_size, what.c_str(),
                candidate->name().c_str(), candidate->us(),
                flops(lengths, head_size) / candidate->us() * 1e-6);
}

TEST(FlashAttentionSm90Bench, DISABLED_PrintsTheTimesOfEncoders) {
  if (!has_flash_attention_sm90()) GTEST_SKIP() << "needs a Hopper GPU and code for sm_90a";
  const Watchdog watchdog(60);
  const device::Stream stream{device::DeviceId{0}};
  for (const int head_size : {32, 64}) {
    prepare_flash_attention_sm90(RealType::f16, head_size);
    prepare_flash_attention_f16(head_size);
    for (const std::int32_t length : {64, 128, 320, 512})
      measure("length " + std::to_string(length),
              std::vector<std::int32_t>(static_cast<std::size_t>(kTokens / length), length),
              head_size, stream);
    measure("articles", articles(), head_size, stream);
  }
}

}  // namespace
}  // namespace sluice::kernels::cuda

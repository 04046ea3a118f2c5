// The Hopper flash attention kernel against double precision, and against itself in other batches.
#include <gmock/gmock.h>

#include "kernels/attention/flash_attention_for_gpu_tests.h"

namespace sluice::kernels::cuda {
namespace {

using Lengths = std::vector<std::int32_t>;

struct Setting {
  RealType type;
  int head_size;
};
void PrintTo(const Setting& s, std::ostream* out) {
  *out << (s.type == RealType::f16 ? "f16" : "bf16") << ", heads of size " << s.head_size;
}

class FlashAttentionSm90Test : public testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    if (!has_flash_attention_sm90()) GTEST_SKIP() << "needs a Hopper GPU and code for sm_90a";
    prepare_flash_attention_sm90(GetParam().type, GetParam().head_size);
  }
  static PackedSequences sequences(Lengths lengths, int heads = 3, unsigned seed = 1) {
    return {std::move(lengths), heads, GetParam().head_size, GetParam().type, seed};
  }
  Bits run(const PackedSequences& of) const { return of.run(of.call(), stream_, of.queue()); }

  // Compares some rows of each sequence, first and last among them. `valid`: keys that a mask
  // leaves.
  static void expect_reference(const PackedSequences& of, const Lengths& lengths, int heads,
                               const Bits& out, const Lengths& valid = {}) {
    const double unit = GetParam().type == RealType::f16 ? 1.0 / 1024 : 1.0 / 128;
    std::mt19937 random(3);
    for (int i = 0; i < of.count(); ++i) {
      const int length = lengths[static_cast<std::size_t>(i)];
      for (int sample = 0; sample < std::min(length, 12); ++sample) {
        const int query = sample < 3   ? sample
                          : sample < 6 ? length - 1 - (sample - 3)
                                       : static_cast<int>(random() % static_cast<unsigned>(length));
        const int head = static_cast<int>(random() % static_cast<unsigned>(heads));
        const std::vector<double> want =
            of.reference(i, query, head,
                         valid.empty() ? length : valid[static_cast<std::size_t>(i)])
                .out;
        const auto token =
            static_cast<std::size_t>(of.cu_seqlens()[static_cast<std::size_t>(i)] + query);
        for (std::size_t d = 0; d < want.size(); ++d) {
          const float got =
              float_of(out[token * of.width() + static_cast<std::size_t>(head) * want.size() + d],
                       GetParam().type);
          ASSERT_NEAR(static_cast<double>(got), want[d], 2 * unit)
              << "sequence " << i << " of " << length << ", query " << query << ", head " << head;
        }
      }
    }
  }

  // Lists the differences: the sequence, the query in it, the head and the element.
  static std::string difference(const PackedSequences& of, const Bits& got, const Bits& want) {
    std::string text;
    int count = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      if (got[i] == want[i] || count++ > 20) continue;
      const auto token = static_cast<std::int32_t>(i / of.width());
      const auto& cu = of.cu_seqlens();
      const auto next = std::upper_bound(cu.begin(), cu.end(), token);
      const auto size = static_cast<std::size_t>(GetParam().head_size);
      text += "sequence " + std::to_string(next - cu.begin() - 1) + " of " +
              std::to_string(*next - *(next - 1)) + ", query " +
              std::to_string(token - *(next - 1)) + ", head " +
              std::to_string(i % of.width() / size) + ", element " + std::to_string(i % size) +
              ": " + std::to_string(float_of(got[i], GetParam().type)) + ", not " +
              std::to_string(float_of(want[i], GetParam().type)) + "\n";
    }
    return count == 0 ? "" : text + std::to_string(count) + " differ\n";
  }

  Watchdog watchdog_{60};
  const device::Stream stream_{device::DeviceId{0}};
};

TEST_P(FlashAttentionSm90Test, MatchesDoublePrecisionAtEveryLength) {
  for (const Lengths& lengths :
       {Lengths{1}, Lengths{64}, Lengths{63, 65, 1, 128, 0, 2}, Lengths{200, 511, 512, 513, 17},
        Lengths{1000, 3, 704, 705, 1537}}) {
    const PackedSequences of = sequences(lengths);
    expect_reference(of, lengths, 3, run(of));
  }
}

// More items than blocks, so that blocks take several, whole sequences at a time.
TEST_P(FlashAttentionSm90Test, MatchesDoublePrecisionInLargeBatches) {
  Lengths lengths;
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) lengths.push_back(static_cast<std::int32_t>(random() % 512 + 1));
  const PackedSequences of = sequences(lengths, 4);
  const Bits out = run(of);
  expect_reference(of, lengths, 4, out);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(difference(of, run(of), out), "");  // the queue is as it was
  EXPECT_EQ(difference(of, of.run(of.call(), stream_, nullptr), out), "");  // dealt out beforehand
}

// Keys grow with their position, so that the maximum of a row rises with nearly each block.
TEST_P(FlashAttentionSm90Test, MatchesDoublePrecisionWhereTheMaximumRises) {
  const Lengths lengths = {512, 300, 65, 1100};
  PackedSequences of = sequences(lengths);
  for (int token = 0; token < of.tokens(); ++token) {
    const auto next = std::upper_bound(of.cu_seqlens().begin(), of.cu_seqlens().end(), token);
    const float grown = static_cast<float>(token - *(next - 1)) * 0.02f;
    for (std::size_t i = 0; i < of.width(); ++i) {
      const std::size_t key = static_cast<std::size_t>(token) * of.row() + of.width() + i;
      of.qkv()[key] = bits_of(float_of(of.qkv()[key], GetParam().type) * grown, GetParam().type);
    }
  }
  of.upload();
  expect_reference(of, lengths, 3, run(of));
}

// Masks of -infinity or of the lowest values, zero for the first keys: blocks that are excluded are
// not loaded, and stages are filled again and again.
TEST_P(FlashAttentionSm90Test, MasksMatchDoublePrecisionInLargeBatches) {
  std::mt19937 random(6);
  for (const auto& [count, length] : {std::pair{200, 450}, {150, 64}, {3, 2048}, {40, 1900}}) {
    const Lengths lengths(static_cast<std::size_t>(count), length);
    const PackedSequences of = sequences(lengths, 2);
    Lengths valid;
    std::vector<float> mask;
    for (int i = 0; i < count; ++i) {
      valid.push_back(1 + static_cast<std::int32_t>(random() % static_cast<unsigned>(length)));
      const float out = i % 2 == 0 ? -INFINITY : -30000.0f;
      for (int key = 0; key < length; ++key) mask.push_back(key < valid.back() ? 0 : out);
    }
    const device::DeviceBuffer on_mask = on_device(mask);
    AttentionCall call = of.dense_call();
    call.mask = on_mask.get();
    call.has_mask = call.mask_is_f32 = true;
    call.mask_batch = length, call.mask_key = 1;
    ASSERT_TRUE(flash_attention_sm90_supports(call));
    const Bits out = of.run(call, stream_, of.queue());
    expect_reference(of, lengths, 2, out, valid);
    EXPECT_EQ(difference(of, of.run(call, stream_, nullptr), out), "");
  }
}

// A sequence alone is split among blocks; in a batch one block has it.
TEST_P(FlashAttentionSm90Test, SequenceHasTheSameBitsInAnyBatch) {
  const Lengths lengths = {150, 512, 64, 333, 1, 700};
  PackedSequences few = sequences(lengths, 2);
  const Bits want = run(few);
  Lengths more = lengths;
  more.resize(400, 33);
  PackedSequences many = sequences(more, 2, 9);
  std::copy(few.qkv().begin(), few.qkv().end(), many.qkv().begin());
  many.upload();
  const Bits got = run(many);
  EXPECT_TRUE(std::equal(want.begin(), want.end(), got.begin()));
}

// Tiles reach into the next sequence, whose values may be NaN.
TEST_P(FlashAttentionSm90Test, SequenceWithNanHasNoEffectOnOthers) {
  const Lengths lengths = {70, 40, 90, 130};
  PackedSequences of = sequences(lengths, 2);
  const Bits want = run(of);
  const std::size_t first = static_cast<std::size_t>(70) * of.row(), end = 110 * of.row();
  std::fill(of.qkv().begin() + static_cast<std::ptrdiff_t>(first),
            of.qkv().begin() + static_cast<std::ptrdiff_t>(end), std::uint16_t{0x7fff});
  of.upload();
  const Bits got = run(of);
  for (std::size_t i = 0; i < got.size(); ++i)
    if (i / of.width() < 70 || i / of.width() >= 110)
      ASSERT_EQ(got[i], want[i]) << "token " << i / of.width();
    else
      ASSERT_TRUE(std::isnan(float_of(got[i], GetParam().type)));
}

TEST_P(FlashAttentionSm90Test, EveryKernelSavesTheLogOfTheSumOfExponentials) {
  const Lengths lengths = {1, 64, 130, 0, 700};
  const PackedSequences of = sequences(lengths);
  const RealType type = GetParam().type;
  const auto sm80 = type == RealType::f16 ? flash_attention_f16 : flash_attention_bf16;
  type == RealType::f16 ? prepare_flash_attention_f16(GetParam().head_size)
                        : prepare_flash_attention_bf16(GetParam().head_size);
  const std::size_t count = static_cast<std::size_t>(of.tokens()) * 3;
  const device::DeviceBuffer lse = on_device(std::vector<float>(count, NAN));
  AttentionCall call = of.call();
  call.lse = static_cast<float*>(lse.get());
  const LaunchArgs args{.stream = stream_.get()};
  const std::function<void()> kernels[] = {[&] { flash_attention_sm90(type, call, args); },
                                           [&] { sm80(call, args); },
                                           [&] { naive_attention(type, call, args); }};
  for (const auto& run : kernels) {
    device::check(cudaMemsetAsync(lse.get(), 0xff, count * sizeof(float), stream_.get()));
    run();
    stream_.wait();
    std::vector<float> got(count);
    device::check(cudaMemcpy(got.data(), lse.get(), count * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < of.count(); ++i)
      for (int query = 0; query < lengths[static_cast<std::size_t>(i)]; query += 13)
        for (int head = 0; head < 3; ++head) {
          const int token = of.cu_seqlens()[static_cast<std::size_t>(i)] + query;
          ASSERT_NEAR(static_cast<double>(got[static_cast<std::size_t>(token * 3 + head)]),
                      of.reference(i, query, head).lse, 1e-4)
              << "kernel " << &run - kernels << ", sequence " << i << ", query " << query;
        }
  }
}

TEST_P(FlashAttentionSm90Test, LiveCountsBoundTheWork) {
  const Lengths lengths = {100, 200, 300};
  const PackedSequences of = sequences(lengths, 2);
  AttentionCall bucket = of.call();
  bucket.batch = 1000, bucket.queries = bucket.keys = 512;
  EXPECT_EQ(difference(of, of.run(bucket, stream_, of.queue()), run(of)), "");
}

// The first two sequences are live; the tokens behind them are not written.
TEST_P(FlashAttentionSm90Test, TokensBehindTheLiveOnesAreNotWritten) {
  const Lengths lengths = {100, 200, 300};
  PackedSequences of = sequences(lengths, 2);
  const Bits all = run(of);
  of.set_live({.tokens = 300, .sequences = 2, .longest = 200});
  const Bits some = run(of);
  const auto end = static_cast<std::ptrdiff_t>(300 * of.width());
  EXPECT_TRUE(std::equal(all.begin(), all.begin() + end, some.begin()));
  EXPECT_TRUE(
      std::all_of(some.begin() + end, some.end(), [](std::uint16_t x) { return x == 0xffff; }));
}

TEST_P(FlashAttentionSm90Test, EmptySequencesAlone) {
  const PackedSequences of = sequences({5, 0, 0}, 2);
  AttentionCall call = of.call();
  const device::DeviceBuffer none = on_device(std::vector<std::int32_t>{0, 0, 0, 0});
  call.cu_seqlens = static_cast<const std::int32_t*>(none.get());
  const Bits out = of.run(call, stream_, of.queue());  // the five tokens belong to no sequence
  EXPECT_THAT(out, testing::Each(testing::Eq(0)));
}

INSTANTIATE_TEST_SUITE_P(Types, FlashAttentionSm90Test,
                         testing::Values(Setting{RealType::f16, 32}, Setting{RealType::f16, 64},
                                         Setting{RealType::bf16, 32}, Setting{RealType::bf16, 64}));

}  // namespace
}  // namespace sluice::kernels::cuda

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

  // Compares some rows of each sequence, first and last among them.
  static void expect_reference(const PackedSequences& of, const Lengths& lengths, int heads,
                               const Bits& out) {
    const double unit = GetParam().type == RealType::f16 ? 1.0 / 1024 : 1.0 / 128;
    std::mt19937 random(3);
    for (int i = 0; i < of.count(); ++i) {
      const int length = lengths[static_cast<std::size_t>(i)];
      for (int sample = 0; sample < std::min(length, 12); ++sample) {
        const int query = sample < 3   ? sample
                          : sample < 6 ? length - 1 - (sample - 3)
                                       : static_cast<int>(random() % static_cast<unsigned>(length));
        const int head = static_cast<int>(random() % static_cast<unsigned>(heads));
        const std::vector<double> want = of.reference(i, query, head);
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

  // What differs, and where: the sequence, the query in it, the head and the element.
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

TEST_P(FlashAttentionSm90Test, LiveCountsBoundTheWork) {
  const Lengths lengths = {100, 200, 300};
  const PackedSequences of = sequences(lengths, 2);
  AttentionCall bucket = of.call();
  bucket.batch = 1000, bucket.queries = bucket.keys = 512;
  bucket.tokens = of.tokens();
  EXPECT_EQ(difference(of, of.run(bucket, stream_, of.queue()), run(of)), "");
}

INSTANTIATE_TEST_SUITE_P(Types, FlashAttentionSm90Test,
                         testing::Values(Setting{RealType::f16, 32}, Setting{RealType::f16, 64},
                                         Setting{RealType::bf16, 32}, Setting{RealType::bf16, 64}));

}  // namespace
}  // namespace sluice::kernels::cuda

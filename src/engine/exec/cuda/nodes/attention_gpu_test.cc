// Attention on CUDA against the CPU, and against itself in other batches.
#include <limits>

#include "engine/exec/cuda/nodes/op_cases_for_tests.h"
#include "engine/graph/graph_editor.h"

namespace sluice::engine::cuda {
namespace {

using std::int64_t;

struct Setting {
  DType type;
  int64_t batch, heads, size, queries, keys;
  bool packed;
};

// Masks the last keys of each entry, for some a whole block or more.
Tensor padding(Random& r, const Setting& s) {
  const Tensor mask(DType::f32, {s.batch, 1, 1, s.keys});
  for (int64_t b = 0; b < s.batch; ++b) {
    const int64_t length = r.between(1, s.keys);
    for (int64_t k = 0; k < s.keys; ++k)
      mask.values<float>()[static_cast<std::size_t>(b * s.keys + k)] = k < length ? 0 : -10000.0f;
  }
  return mask;
}

Tensor cast(const Tensor& tensor, DType type) {
  OpCase c("Cast", 13, {tensor});
  return on_cpu(c.set("to", static_cast<int64_t>(type)))[0];
}

OpCase attention(Random& r, const Setting& s, const Tensor& mask) {
  const int64_t width = s.heads * s.size;
  const auto part = [&](int64_t length, int64_t times) {
    return r.numbers(s.type, {s.batch, length, times * width});
  };
  std::vector<Tensor> inputs;
  if (s.packed)
    inputs = {part(s.keys, 3), Tensor(), Tensor()};
  else
    inputs = {part(s.queries, 1), part(s.keys, 1), part(s.keys, 1)};
  if (mask) inputs.push_back(cast(mask, s.type));
  OpCase c("Attention", 1, inputs, std::string(kFused));
  c.set("heads", s.heads)
      .set("scale", static_cast<float>(1 / std::sqrt(static_cast<double>(s.size))))
      .set("packed", int64_t{s.packed ? 1 : 0});
  return c;
}

void compare(const OpCase& what, const Setting& s) {
  const std::string text = std::string(to_string(s.type)) + " size " + std::to_string(s.size) +
                           ", " + std::to_string(s.queries) + " x " + std::to_string(s.keys);
  SCOPED_TRACE(text);
  const auto want = on_cpu(what), got = on_gpu(what, want, test_context());
  ASSERT_FALSE(got.empty());
  const double error = worst_error(got[0], want[0]);
  EXPECT_LE(error, s.type == DType::f32 ? 64 : 12);
  std::printf("Attention %-44s worst %6.2f roundings\n", text.c_str(), error);
}

TEST(CudaAttention, AllSequenceLengthsMatchTheCpu) {
  Random r(1);
  for (const DType type : {DType::f16, DType::bf16, DType::f32})
    for (const int64_t size : {32, 64, 128})
      for (const int64_t length : {1, 2, 31, 64, 65, 127, 128, 200, 320, 513}) {
        const Setting s{type, 2, 2, size, length, length, r.coin()};
        compare(attention(r, s, r.coin() ? padding(r, s) : Tensor()), s);
      }
}

TEST(CudaAttention, OddHeadSizesMatchTheCpu) {
  Random r(2);
  for (const DType type : {DType::f16, DType::bf16, DType::f32})
    for (const int64_t size : {1, 8, 20, 24, 40, 48, 80, 96, 104, 160}) {
      const Setting s{type, 2, 3, size, 37, 70, false};
      compare(attention(r, s, Tensor()), s);
    }
}

TEST(CudaAttention, MasksOfEveryShapeMatchTheCpu) {
  Random r(3);
  for (const DType type : {DType::f16, DType::f32})
    for (const int64_t size : {32, 64, 128})
      for (const Shape& shape : {Shape{2, 1, 1, 150}, Shape{1, 1, 1, 150}, Shape{2, 3, 90, 150},
                                 Shape{1, 3, 90, 150}, Shape{2, 1, 90, 150}, Shape{90, 150},
                                 Shape{150}, Shape{2, 3, 1, 150}, Shape{2, 1, 90, 1}}) {
        const Setting s{type, 2, 3, size, 90, 150, false};
        SCOPED_TRACE(to_string(shape));
        compare(attention(r, s, r.numbers(DType::f32, shape, -4, 4)), s);
      }
}

TEST(CudaAttention, FullyMaskedEntriesAreTheMeanOfAllValues) {
  Random r(4);
  for (const float low : {-10000.0f, -65504.0f, std::numeric_limits<float>::lowest()}) {
    const Setting s{DType::f16, 2, 2, 64, 130, 130, false};
    const Tensor mask = padding(r, s);
    for (int64_t k = 0; k < s.keys; ++k)
      mask.values<float>()[static_cast<std::size_t>(k)] = low;  // the first entry
    compare(attention(r, s, mask), s);
  }
}

TEST(CudaAttention, KeysMaskedByInfinityHaveNoWeight) {
  Random r(5);
  const Setting s{DType::f16, 2, 2, 64, 130, 260, false};
  const Tensor mask = padding(r, s);
  for (float& value : mask.values<float>())
    if (value < 0) value = -INFINITY;
  compare(attention(r, s, mask), s);
}

// Packed sequences (varlen): some are empty, and some tokens belong to none.
OpCase in_sequences(Random& r, Setting s, const std::vector<int64_t>& lengths, int64_t spare) {
  const Tensor cu_seqlens(DType::i32, {static_cast<int64_t>(lengths.size()) + 1});
  int64_t max_seqlen = 1, tokens = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    cu_seqlens.values<std::int32_t>()[i] = static_cast<std::int32_t>(tokens);
    tokens += lengths[i];
    max_seqlen = std::max(max_seqlen, lengths[i]);
  }
  cu_seqlens.values<std::int32_t>()[lengths.size()] = static_cast<std::int32_t>(tokens);
  s.batch = 1;
  s.queries = s.keys = tokens + spare;
  OpCase c = attention(r, s, Tensor());
  c.inputs.resize(5);
  c.inputs[4] = cu_seqlens;
  c.set("max_seqlen", max_seqlen);
  return c;
}

TEST(CudaAttention, VarlenSequencesMatchTheCpu) {
  Random r(7);
  for (const DType type : {DType::f16, DType::bf16, DType::f32})
    for (const int64_t size : {20, 32, 64, 128})
      for (const std::vector<int64_t>& lengths :
           {std::vector<int64_t>{1, 130, 0, 64, 65, 500, 3}, {384}, {1}, {63, 64, 128, 127}}) {
        const Setting s{type, 1, 3, size, 0, 0, r.coin()};
        const OpCase what = in_sequences(r, s, lengths, r.between(0, 70));
        compare(what, {type, 1, 3, size, what.inputs[0].shape()[1], 0, s.packed});
      }
}

TEST(CudaAttention, InvalidCuSeqlensDoNotReadOutOfBounds) {
  Random r(8);
  OpCase what = in_sequences(r, {DType::f16, 1, 2, 64, 0, 0, true}, {40, 50, 60}, 10);
  const auto like = on_cpu(what);
  const auto cu_seqlens = what.inputs[4].values<std::int32_t>();
  cu_seqlens[1] = -7, cu_seqlens[2] = 1 << 30, cu_seqlens[3] = 12;
  EXPECT_FALSE(on_gpu(what, like, test_context()).empty());  // for compute-sanitizer
}

TEST(CudaAttention, RowHasTheSameBitsForAnyPadding) {
  Random r(6);
  const Setting alone{DType::f16, 1, 2, 64, 70, 70, false};
  const OpCase small = attention(r, alone, Tensor());
  const auto like = on_cpu(small), want = on_gpu(small, like, test_context());
  ASSERT_FALSE(want.empty());
  const Setting padded{DType::f16, 1, 2, 64, 300, 300, false};
  OpCase large = attention(r, padded, padding(r, padded));
  for (std::size_t i = 0; i < 3; ++i)
    std::copy_n(static_cast<const Half*>(small.inputs[i].data()), small.inputs[i].size(),
                static_cast<Half*>(large.inputs[i].data()));
  for (int64_t k = 0; k < 300; ++k)
    large.inputs[3].values<Half>()[static_cast<std::size_t>(k)] = k < 70 ? 0.0f : -10000.0f;
  const auto got = on_gpu(large, on_cpu(large), test_context());
  ASSERT_FALSE(got.empty());
  const Tensor first = Tensor::view(DType::f16, want[0].shape(), got[0].data(), nullptr);
  EXPECT_EQ(worst_error(first, want[0]), 0);
}

}  // namespace
}  // namespace sluice::engine::cuda

// Reductions, normalizations, pools and recurrent layers on CUDA against the CPU.
#include <limits>

#include "engine/exec/cuda/nodes/op_cases_for_tests.h"
#include "engine/graph/graph_editor.h"
#include "engine/ops/convert.h"

namespace sluice::engine::cuda {
namespace {

using Integers = Attributes::Integers;
using std::int64_t;

// A random subset of the axes.
Integers some_axes(Random& r, const Shape& shape) {
  Integers axes;
  for (int i = 0; i < shape.rank(); ++i)
    if (r.coin()) axes.push_back(i);
  return axes;
}

// Long axes now and then, so that every kernel is used.
Shape long_shape(Random& r) {
  Shape shape = r.shape(1, 4);
  if (r.coin()) shape[static_cast<int>(r.between(0, shape.rank() - 1))] *= r.between(30, 300);
  return shape;
}

class CudaReduction : public testing::TestWithParam<const char*> {};

TEST_P(CudaReduction, MatchesTheCpu) {
  const char* const op = GetParam();
  for (const DType type : kNumberTypes)
    for (unsigned seed = 0; seed < 5; ++seed) {
      Random r(seed + 5);
      const Shape shape = long_shape(r);
      const bool product = std::string_view(op) == "ReduceProd";
      const bool real = is_float(type);
      const OpCase what =
          OpCase(op, 18,
                 {r.numbers(type, shape, real ? (product ? 0.99 : 0.1) : 1, product ? 1.01 : 2),
                  Random::integers(some_axes(r, shape))})
              .set("keepdims", int64_t{r.coin() ? 1 : 0})
              .known(2);
      SCOPED_TRACE(std::string(op) + " of " + std::string(to_string(type)) + " " +
                   to_string(shape));
      const auto want = on_cpu(what), got = on_gpu(what, want, test_context());
      if (got.empty()) continue;
      const double error = worst_error(got[0], want[0]);
      EXPECT_LE(error, type == DType::f32 ? 256 : 8);
      if (seed == 4)
        std::printf("%-16s %-5s worst %6.2f roundings, at %s\n", op,
                    std::string(to_string(type)).c_str(), error, to_string(shape).c_str());
    }
}

INSTANTIATE_TEST_SUITE_P(Operators, CudaReduction,
                         testing::Values("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin",
                                         "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
                                         "ReduceLogSumExp", "ReduceSumSquare"),
                         [](const auto& op) { return case_name(op.param); });

// Reduces n of [outer, n, inner]: results that are vectorized and others.
class CudaReductionAcrossRows : public testing::TestWithParam<const char*> {};

TEST_P(CudaReductionAcrossRows, MatchesTheCpu) {
  const char* const op = GetParam();
  const Shape shapes[] = {{3, 49, 64}, {1, 7, 2048}, {128, 49, 24}, {2, 200, 8},
                          {5, 1, 16},  {4, 65, 12},  {3, 9, 7},     {300, 3, 8}};
  for (const DType type : kNumberTypes)
    for (const Shape& shape : shapes) {
      Random r(static_cast<unsigned>(shape.size()));
      const bool product = std::string_view(op) == "ReduceProd";
      const double low = is_float(type) ? (product ? 0.99 : 0.1) : 1;
      const OpCase what =
          OpCase(op, 18, {r.numbers(type, shape, low, product ? 1.01 : 2.9), Random::integers({1})})
              .known(2);
      SCOPED_TRACE(std::string(op) + " of " + std::string(to_string(type)) + " " +
                   to_string(shape));
      const auto want = on_cpu(what), got = on_gpu(what, want, test_context());
      ASSERT_EQ(got.size(), 1u);
      EXPECT_LE(worst_error(got[0], want[0]), type == DType::f32 ? 256 : 8);
    }
}

INSTANTIATE_TEST_SUITE_P(Operators, CudaReductionAcrossRows,
                         testing::Values("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin",
                                         "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
                                         "ReduceLogSumExp"),
                         [](const auto& op) { return case_name(op.param); });

// The number of results changes none of them: vectorized and scalar results are equal.
TEST(CudaOperators, MeanAcrossRowsDoesNotDependOnItsNeighbours) {
  Random r(9);
  const Tensor all = r.numbers(DType::f32, {2, 49, 64}), odd(DType::f32, {2, 49, 63});
  for (std::size_t row = 0; row < 2 * 49; ++row)
    for (std::size_t i = 0; i < 63; ++i)
      odd.values<float>()[row * 63 + i] = all.values<float>()[row * 64 + i];
  const auto mean = [](const Tensor& of) {
    const OpCase what = OpCase("ReduceMean", 18, {of, Random::integers({1})}).known(2);
    return on_gpu(what, on_cpu(what), test_context());
  };
  const auto packs = mean(all), others = mean(odd);
  ASSERT_EQ(packs.size() + others.size(), 2u);
  for (std::size_t row = 0; row < 2; ++row)
    for (std::size_t i = 0; i < 63; ++i)
      ASSERT_EQ(packs[0].values<float>()[row * 64 + i], others[0].values<float>()[row * 63 + i]);
}

OpCase softmax_like(Random& r, DType type, const char* op) {
  const Shape shape = long_shape(r);
  return OpCase(op, 22, {r.numbers(type, shape, -4, 4)})
      .set("axis", r.between(-shape.rank(), shape.rank() - 1))
      .allows(4);
}

OpCase layer(Random& r, DType type, const char* op, int version, bool bias) {
  const int64_t n = r.coin() ? r.between(1, 40) : 8 * r.between(1, 170);
  const Shape list{n};
  std::vector<Tensor> inputs{r.numbers(type, {r.between(1, 9), r.between(1, 3), n}),
                             r.numbers(type, list)};
  if (bias) inputs.push_back(r.numbers(type, list));
  return OpCase(op, version, inputs).allows(6);
}

OpCase pool(Random& r, DType type, const char* op, int version) {
  const auto axes = static_cast<int>(r.between(1, 3));
  Shape shape{r.between(1, 2), r.between(1, 3)};
  Integers kernel, strides, pads, dilations;
  for (int i = 0; i < axes; ++i) {
    shape.push_back(r.between(7, 14));
    kernel.push_back(r.between(1, 3));
    strides.push_back(r.between(1, 3));
    dilations.push_back(r.between(1, 2));
  }
  for (int i = 0; i < 2 * axes; ++i)
    pads.push_back(r.between(0, kernel[static_cast<std::size_t>(i % axes)] - 1));
  OpCase c(op, version, {r.numbers(type, shape)});
  return c.set("kernel_shape", kernel)
      .set("strides", strides)
      .set("pads", pads)
      .set("dilations", dilations)
      .set("ceil_mode", int64_t{r.coin() ? 1 : 0})
      .allows(4);
}

OpCase recurrent(Random& r, DType type, const char* op, int64_t gates) {
  const int64_t steps = r.between(1, 7), batch = r.between(1, 4), in = r.between(1, 40),
                hidden = r.between(1, 40);
  const int64_t directions = r.between(1, 2), rows = gates * hidden;
  const bool first = r.coin();
  std::vector<Tensor> inputs{
      r.numbers(type, first ? Shape{batch, steps, in} : Shape{steps, batch, in}),
      r.numbers(type, {directions, rows, in}, -0.3, 0.3),
      r.numbers(type, {directions, rows, hidden}, -0.3, 0.3),
      r.coin() ? r.numbers(type, {directions, 2 * rows}, -0.3, 0.3) : Tensor(),
      r.coin() ? r.numbers(DType::i32, {batch}, 1, static_cast<double>(steps) + 0.9) : Tensor()};
  const Shape state = first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
  inputs.push_back(r.coin() ? r.numbers(type, state) : Tensor());
  const bool lstm = gates == 4;
  if (lstm) inputs.push_back(r.numbers(type, state));
  if (lstm) inputs.push_back(r.coin() ? r.numbers(type, {directions, 3 * hidden}) : Tensor());
  OpCase c(op, 14, inputs);
  const char* const one_way = r.coin() ? "forward" : "reverse";
  c.set("direction", std::string(directions == 2 ? "bidirectional" : one_way))
      .set("hidden_size", hidden)
      .set("layout", int64_t{first ? 1 : 0});
  if (gates == 3) c.set("linear_before_reset", int64_t{r.coin() ? 1 : 0});
  return c.gives(lstm ? 3 : 2).allows(8);
}

const OpRow kRows[] = {
    {"Softmax", kRealTypes, [](Random& r, DType t) { return softmax_like(r, t, "Softmax"); }},
    {"LogSoftmax", kRealTypes, [](Random& r, DType t) { return softmax_like(r, t, "LogSoftmax"); }},
    {"Hardmax", kRealTypes, [](Random& r, DType t) { return softmax_like(r, t, "Hardmax"); }},
    {"LpNormalization", kRealTypes,
     [](Random& r, DType t) {
       return softmax_like(r, t, "LpNormalization").set("p", r.between(1, 2));
     }},
    {"LayerNormalization", kRealTypes,
     [](Random& r, DType t) { return layer(r, t, "LayerNormalization", 17, r.coin()); }},
    {"RMSNormalization", kRealTypes,
     [](Random& r, DType t) { return layer(r, t, "RMSNormalization", 23, false); }},
    {"Norm", kRealTypes,
     [](Random& r, DType t) {
       const int64_t n = r.coin() ? 8 * r.between(1, 160) : r.between(1, 60);
       const Shape shape{r.between(1, 9), n};
       return OpCase("Norm", 1,
                     {r.numbers(t, shape), r.coin() ? r.numbers(t, shape) : Tensor(),
                      r.numbers(t, {n}), r.coin() ? r.numbers(t, {n}) : Tensor()},
                     std::string(kFused))
           .set("epsilon", 1e-5f)
           .allows(6);
     }},
    {"GroupNormalization", kRealTypes,
     [](Random& r, DType t) {
       return OpCase(
                  "GroupNormalization", 21,
                  {r.numbers(t, {2, 6, r.between(1, 30), 3}), r.numbers(t, {6}), r.numbers(t, {6})})
           .set("num_groups", int64_t{r.coin() ? 2 : 3})
           .allows(6);
     }},
    {"InstanceNormalization", kRealTypes,
     [](Random& r, DType t) {
       return OpCase(
                  "InstanceNormalization", 22,
                  {r.numbers(t, {2, 5, r.between(2, 40), 3}), r.numbers(t, {5}), r.numbers(t, {5})})
           .allows(6);
     }},
    {"MeanVarianceNormalization", kRealTypes,
     [](Random& r, DType t) {
       return OpCase("MeanVarianceNormalization", 13, {r.numbers(t, {3, 4, r.between(2, 30), 5})})
           .allows(6);
     }},
    {"LRN", kRealTypes,
     [](Random& r, DType t) {
       return OpCase("LRN", 13, {r.numbers(t, {2, r.between(1, 9), 4, 3})})
           .set("size", r.between(1, 6))
           .set("alpha", 0.1f)
           .allows(2);
     }},
    {"ArgMax", kNumberTypes,
     [](Random& r, DType t) {
       const Shape shape = long_shape(r);
       return OpCase("ArgMax", 13, {r.numbers(t, shape, -9, 9)})
           .set("axis", r.between(0, shape.rank() - 1))
           .set("select_last_index", int64_t{r.coin() ? 1 : 0});
     }},
    {"ArgMin", kNumberTypes,
     [](Random& r, DType t) {
       const Shape shape = long_shape(r);
       return OpCase("ArgMin", 13, {r.numbers(t, shape, -9, 9)})
           .set("axis", r.between(0, shape.rank() - 1))
           .set("keepdims", int64_t{0});
     }},
    {"TopK", kNumberTypes,
     [](Random& r, DType t) {
       const Shape shape = long_shape(r);
       const int64_t axis = r.between(0, shape.rank() - 1);
       const int64_t k = r.between(1, std::min<int64_t>(9, shape[static_cast<int>(axis)]));
       return OpCase("TopK", 11, {r.numbers(t, shape, -9, 9), Random::integers({k})})
           .set("axis", axis)
           .set("largest", int64_t{r.coin() ? 1 : 0})
           .known(2)
           .gives(2);
     }},
    {"MaxPool", kRealTypes,
     [](Random& r, DType t) { return pool(r, t, "MaxPool", 12).gives(r.coin() ? 2 : 1); }},
    {"AveragePool", kRealTypes,
     [](Random& r, DType t) {
       return pool(r, t, "AveragePool", 19).set("count_include_pad", int64_t{r.coin() ? 1 : 0});
     }},
    {"LpPool", kRealTypes, [](Random& r, DType t) { return pool(r, t, "LpPool", 18).allows(8); }},
    {"GlobalAveragePool", kRealTypes,
     [](Random& r, DType t) {
       return OpCase("GlobalAveragePool", 22, {r.numbers(t, {2, 3, r.between(1, 40), 7})})
           .allows(4);
     }},
    {"GlobalMaxPool", kRealTypes,
     [](Random& r, DType t) {
       return OpCase("GlobalMaxPool", 22, {r.numbers(t, {2, 3, r.between(1, 40), 7})});
     }},
    {"GlobalLpPool", kRealTypes,
     [](Random& r, DType t) {
       return OpCase("GlobalLpPool", 2, {r.numbers(t, {2, 3, r.between(1, 9), 7})})
           .set("p", r.between(1, 2))
           .allows(4);
     }},
    {"LSTM", kRealTypes, [](Random& r, DType t) { return recurrent(r, t, "LSTM", 4); }},
    {"GRU", kRealTypes, [](Random& r, DType t) { return recurrent(r, t, "GRU", 3); }},
    {"RNN", kRealTypes, [](Random& r, DType t) { return recurrent(r, t, "RNN", 1); }},
};

class CudaNormPoolOrRecurrentLayer : public testing::TestWithParam<OpRow> {};

TEST_P(CudaNormPoolOrRecurrentLayer, MatchesTheCpu) { check(GetParam(), test_context()); }

INSTANTIATE_TEST_SUITE_P(Operators, CudaNormPoolOrRecurrentLayer, testing::ValuesIn(kRows),
                         name_of_row);

// The scale is a power of two: dividing by it is exact, so CPU and GPU round equally.
TEST(CudaOperators, NormQuantizesItsResult) {
  for (const DType type : kRealTypes)
    for (const DType to : {DType::u8, DType::i8})
      for (const int64_t n : {8, 37, 384, 768, 1024, 1600}) {
        Random r(static_cast<unsigned>(n));
        const Shape shape{7, n};
        const OpCase what =
            OpCase("Norm", 1,
                   {r.numbers(type, shape), r.coin() ? r.numbers(type, shape) : Tensor(),
                    r.numbers(type, {n}), r.numbers(type, {n})},
                   std::string(kFused))
                .set("to_scale", 0x1p-5f)
                .set("to_zero", int64_t{to == DType::u8 ? 120 : -9})
                .set("to_type", static_cast<int64_t>(to))
                .gives(2);
        SCOPED_TRACE(std::string(to_string(type)) + " " + to_string(shape));
        const auto want = on_cpu(what), got = on_gpu(what, want, test_context());
        ASSERT_EQ(got.size(), 2u);
        EXPECT_LE(worst_error(got[0], want[0]), 48);
        const Tensor zero = converted(Tensor::of(to == DType::u8 ? 120.0f : -9.0f), to);
        const OpCase steps("QuantizeLinear", 21, {got[0], Tensor::of(0x1p-5f), zero});
        EXPECT_EQ(worst_error(got[1], on_cpu(steps)[0]), 0);
      }
}

// ---- NHWC max pool ------------------------------------------------------------------------------

struct Images {
  Shape shape;  // without channels
  Integers kernel, strides, pads, dilations;
};

const Images kImages[] = {
    {{2, 13, 11}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}},
    {{1, 56, 57}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}},
    {{2, 8, 9}, {3, 3}, {2, 2}, {0, 0, 1, 2}, {1, 1}},  // as ceil_mode becomes
    {{3, 5, 6}, {3, 3}, {1, 1}, {2, 2, 2, 2}, {1, 1}},
    {{2, 7, 5}, {2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}},
    {{1, 9, 9}, {3, 2}, {2, 1}, {1, 0, 1, 1}, {1, 1}},
    {{1, 12, 10}, {5, 5}, {1, 1}, {2, 2, 2, 2}, {1, 1}},
    {{1, 1, 17}, {1, 3}, {1, 2}, {0, 1, 0, 1}, {1, 1}},
    {{1, 6, 6}, {1, 1}, {2, 3}, {0, 0, 0, 0}, {2, 2}},
    {{1, 11, 10}, {3, 3}, {1, 2}, {2, 2, 2, 2}, {2, 2}},  // gaps
    {{1, 4, 4}, {2, 2}, {1, 1}, {2, 2, 2, 2}, {1, 1}},    // windows of padding only
};

// Fills with values whose order needs rules: zeros of both signs, infinities, NaN.
Tensor unruly(Random& r, DType type, const Shape& shape) {
  if (!is_float(type)) {
    const double min = type == DType::i8 ? -128 : 0;
    return r.numbers(type, shape, min, min + 255.9);
  }
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kRare[] = {0.0f, -0.0f, 0.0f, -0.0f, -kInfinity, kInfinity, NAN, -NAN};
  const Tensor wide = r.numbers(DType::f32, shape, -2, r.coin() ? 2 : 0);
  for (float& x : wide.values<float>())
    if (const int64_t at = r.between(0, 40); at < 8) x = kRare[at];
  return converted(wide, type);
}

// Counts the values that differ, including the sign of zero; all NaNs are equal.
int64_t differing(const Tensor& got, const Tensor& want) {
  const Tensor a = converted(got, DType::f64), b = converted(want, DType::f64);
  int64_t count = 0;
  for (std::size_t i = 0; i < b.values<double>().size(); ++i) {
    const double x = a.values<double>()[i], y = b.values<double>()[i];
    const bool same = std::isnan(y) ? std::isnan(x) : x == y && std::signbit(x) == std::signbit(y);
    count += same ? 0 : 1;
  }
  return count;
}

TEST(CudaOperators, MaxPoolMatchesTheCpuExactly) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::u8, DType::i8})
    for (const Images& images : kImages)
      for (const int64_t channels : {1, 5, 8, 16, 24, 64, 80}) {
        Random r(static_cast<unsigned>(channels + images.shape[1]));
        Shape shape = images.shape;
        shape.push_back(channels);
        const OpCase what = OpCase("MaxPool", 1, {unruly(r, type, shape)}, "sluice")
                                .set("kernel", images.kernel)
                                .set("strides", images.strides)
                                .set("pads", images.pads)
                                .set("dilations", images.dilations);
        SCOPED_TRACE(std::string(to_string(type)) + " " + to_string(shape));
        const auto want = on_cpu(what), got = on_gpu(what, want, test_context());
        ASSERT_EQ(got.size(), 1u);
        EXPECT_EQ(differing(got[0], want[0]), 0);
      }
}

}  // namespace
}  // namespace sluice::engine::cuda

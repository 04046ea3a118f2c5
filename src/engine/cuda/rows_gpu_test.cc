// Reductions, normalizations, windows and recurrent layers on CUDA against the CPU's.
#include "engine/cuda/op_cases_for_tests.h"
#include "engine/edit.h"

namespace sluice::engine::cuda {
namespace {

using Integers = Attributes::Integers;
using std::int64_t;

// Some of the axes.
Integers some_axes(Random& r, const Shape& shape) {
  Integers axes;
  for (int i = 0; i < shape.rank(); ++i)
    if (r.coin()) axes.push_back(i);
  return axes;
}

// Long lines now and then, so that every kernel has its turn.
Shape long_shape(Random& r) {
  Shape shape = r.shape(1, 4);
  if (r.coin()) shape[static_cast<int>(r.between(0, shape.rank() - 1))] *= r.between(30, 300);
  return shape;
}

TEST(CudaOperators, ReductionsGiveWhatTheCpuGives) {
  for (const char* op :
       {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
        "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"})
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

TEST(CudaOperators, RowsWindowsAndSequencesGiveWhatTheCpuGives) {
  for (const OpRow& row : kRows) check(row, test_context());
}

}  // namespace
}  // namespace sluice::engine::cuda

// Data movement, gather, scatter and scan operators on CUDA against the CPU.
#include "engine/exec/cuda/nodes/op_cases_for_tests.h"
#include "engine/graph/graph_editor.h"

namespace sluice::engine::cuda {
namespace {

using Integers = Attributes::Integers;
using std::int64_t;

int64_t axis_of(Random& r, const Shape& shape) { return r.between(0, shape.rank() - 1); }

// ---- data movement ----

const OpRow kMoves[] = {
    {"Transpose", kMovedTypes,
     [](Random& r, DType type) {
       const Shape shape = r.shape(1, 5, 12);
       Integers order;
       for (int i = 0; i < shape.rank(); ++i) order.insert(order.begin() + r.between(0, i), i);
       return OpCase("Transpose", 13, {r.numbers(type, shape, 0, 99)}).set("perm", order);
     }},
    {"Transpose of tiles", kMovedTypes,
     [](Random& r, DType type) {
       const Shape shape{r.between(1, 3), r.between(9, 90), r.between(9, 90)};
       return OpCase("Transpose", 13, {r.numbers(type, shape, 0, 99)})
           .set("perm", Integers{0, 2, 1});
     }},
    {"Transpose of heads", kMovedTypes,
     [](Random& r, DType type) {
       const Shape shape{2, r.between(1, 40), r.between(1, 6), 8 * r.between(1, 4)};
       return OpCase("Transpose", 13, {r.numbers(type, shape, 0, 99)})
           .set("perm", Integers{0, 2, 1, 3});
     }},
    {"Concat", kMovedTypes,
     [](Random& r, DType type) {
       Shape shape = r.shape(1, 4);
       const int64_t axis = axis_of(r, shape);
       std::vector<Tensor> parts;
       for (int64_t i = r.between(1, 4); i > 0; --i) {
         shape[static_cast<int>(axis)] = r.between(0, 9);
         parts.push_back(r.numbers(type, shape, 0, 99));
       }
       return OpCase("Concat", 13, parts).set("axis", axis);
     }},
    {"Split", kMovedTypes,
     [](Random& r, DType type) {
       Shape shape = r.shape(1, 4);
       const int64_t axis = axis_of(r, shape), a = r.between(1, 9), b = r.between(1, 9);
       shape[static_cast<int>(axis)] = a + b;
       return OpCase("Split", 13, {r.numbers(type, shape, 0, 99), r.integers({a, b})})
           .set("axis", axis)
           .known(2)
           .gives(2);
     }},
    {"Slice", kMovedTypes,
     [](Random& r, DType type) {
       const Shape shape = r.shape(1, 4, 12);
       std::vector<int64_t> begin, end, axes, steps;
       for (int i = 0; i < shape.rank(); ++i) {
         const bool back = r.coin();
         const int64_t a = r.between(0, shape[i] - 1), b = r.between(a, shape[i]);
         begin.push_back(back ? b - 1 : a);
         end.push_back(back ? a - 1 - shape[i] : b);
         axes.push_back(i);
         steps.push_back(back ? -r.between(1, 3) : r.between(1, 3));
       }
       return OpCase("Slice", 13,
                     {r.numbers(type, shape, 0, 99), r.integers(begin), r.integers(end),
                      r.integers(axes), r.integers(steps)})
           .known(30);
     }},
    {"Gather", kMovedTypes,
     [](Random& r, DType type) {
       const Shape shape = r.shape(1, 4);
       const int64_t axis = axis_of(r, shape), size = shape[static_cast<int>(axis)];
       const Tensor indices =
           r.numbers(r.coin() ? DType::i64 : DType::i32, r.shape(0, 2), static_cast<double>(-size),
                     static_cast<double>(size) - 0.1);
       return OpCase("Gather", 13, {r.numbers(type, shape, 0, 99), indices}).set("axis", axis);
     }},
    {"GatherElements", kMovedTypes,
     [](Random& r, DType type) {
       const Shape shape = r.shape(1, 4);
       const int64_t axis = axis_of(r, shape), size = shape[static_cast<int>(axis)];
       Shape own = shape;
       own[static_cast<int>(axis)] = r.between(1, 9);
       return OpCase("GatherElements", 13,
                     {r.numbers(type, shape, 0, 99),
                      r.numbers(DType::i64, own, static_cast<double>(-size),
                                static_cast<double>(size) - 0.1)})
           .set("axis", axis);
     }},
    {"GatherND", kMovedTypes,
     [](Random& r, DType type) {
       const Shape shape{2, 3, 4, 5};
       const int64_t batch = r.between(0, 1), depth = r.between(1, 3);
       return OpCase("GatherND", 13,
                     {r.numbers(type, shape, 0, 99),
                      r.numbers(DType::i64, {2, r.between(1, 6), depth}, -2, 1.9)})
           .set("batch_dims", batch);
     }},
    {"ScatterElements", kNumberTypes,
     [](Random& r, DType type) {
       const Shape shape = r.shape(1, 3);
       const int64_t axis = axis_of(r, shape), size = shape[static_cast<int>(axis)];
       const char* const how[] = {"none", "add", "mul", "max", "min"};
       return OpCase("ScatterElements", 18,
                     {r.numbers(type, shape, -9, 9),
                      r.numbers(DType::i64, shape, static_cast<double>(-size),
                                static_cast<double>(size) - 0.1),
                      r.numbers(type, shape, -2, 2)})
           .set("axis", axis)
           .set("reduction", std::string(how[r.between(0, 4)]))
           .allows(8);
     }},
    {"ScatterND", kNumberTypes,
     [](Random& r, DType type) {
       const bool once = r.coin();
       const Tensor indices =
           once ? r.integers({3, 0, 5}).reshaped({3, 1}) : r.numbers(DType::i64, {9, 1}, 0, 5.9);
       return OpCase("ScatterND", 18,
                     {r.numbers(type, {6, 4}, -9, 9), indices,
                      r.numbers(type, {indices.shape()[0], 4}, -2, 2)})
           .set("reduction", std::string(once       ? "none"
                                         : r.coin() ? "add"
                                                    : "mul"))
           .allows(8);
     }},
    {"Expand", kMovedTypes,
     [](Random& r, DType type) {
       Shape from = r.shape(1, 4), to = from;
       for (int i = 0; i < from.rank(); ++i)
         if (r.coin()) from[i] = 1;
       to.insert(0, r.between(1, 3));
       return OpCase("Expand", 13,
                     {r.numbers(type, from, 0, 99), r.integers({to.begin(), to.end()})})
           .known(2);
     }},
    {"Tile", kMovedTypes,
     [](Random& r, DType type) {
       const Shape shape = r.shape(1, 3);
       std::vector<int64_t> times;
       for (int i = 0; i < shape.rank(); ++i) times.push_back(r.between(1, 3));
       return OpCase("Tile", 13, {r.numbers(type, shape, 0, 99), r.integers(times)}).known(2);
     }},
    {"Pad", kMovedTypes,
     [](Random& r, DType type) {
       const Shape shape = r.shape(1, 4);
       const char* const modes[] = {"constant", "reflect", "edge", "wrap"};
       std::vector<int64_t> pads;
       for (int i = 0; i < 2 * shape.rank(); ++i) pads.push_back(r.between(0, 4));
       return OpCase("Pad", 21,
                     {r.numbers(type, shape, 0, 99), r.integers(pads), r.numbers(type, {}, 1, 9)})
           .set("mode", std::string(modes[r.between(0, 3)]))
           .known(2);
     }},
    {"DepthToSpace", kMovedTypes,
     [](Random& r, DType type) {
       return OpCase("DepthToSpace", 13, {r.numbers(type, {2, 12, 3, 5}, 0, 99)})
           .set("blocksize", int64_t{2})
           .set("mode", std::string(r.coin() ? "DCR" : "CRD"));
     }},
    {"SpaceToDepth", kMovedTypes,
     [](Random& r, DType type) {
       return OpCase("SpaceToDepth", 13, {r.numbers(type, {2, 3, 6, 4}, 0, 99)})
           .set("blocksize", int64_t{2});
     }},
    {"Resize nearest", kMovedTypes,
     [](Random& r, DType type) {
       const float scale = static_cast<float>(r.between(5, 30)) / 10;
       const Tensor scales = tensor_of_floats({1, 1, scale, 2});
       return OpCase("Resize", 19, {r.numbers(type, {2, 3, 7, 5}, 0, 99), Tensor(), scales})
           .known(4);
     }},
    {"Resize linear", kRealTypes,
     [](Random& r, DType type) {
       const float scale = static_cast<float>(r.between(5, 30)) / 10;
       const Tensor scales = tensor_of_floats({1, 1, scale, 1.5f});
       const char* const modes[] = {"half_pixel", "align_corners", "asymmetric"};
       return OpCase("Resize", 19, {r.numbers(type, {2, 3, 7, 5}), Tensor(), scales})
           .set("mode", std::string(r.coin() ? "linear" : "cubic"))
           .set("coordinate_transformation_mode", std::string(modes[r.between(0, 2)]))
           .known(4)
           .allows(4);
     }},
    {"Upsample", kMovedTypes,
     [](Random& r, DType type) {
       return OpCase("Upsample", 9,
                     {r.numbers(type, {1, 2, 3, 4}, 0, 99), tensor_of_floats({1, 1, 2, 3})})
           .known(2);
     }},
    {"Trilu", kMovedTypes,
     [](Random& r, DType type) {
       return OpCase("Trilu", 14,
                     {r.numbers(type, {2, r.between(1, 9), r.between(1, 9)}, 1, 99),
                      Tensor::of<int64_t>(r.between(-4, 4))})
           .set("upper", int64_t{r.coin() ? 1 : 0})
           .known(2);
     }},
    {"OneHot", kMovedTypes,
     [](Random& r, DType type) {
       return OpCase("OneHot", 11,
                     {r.numbers(DType::i64, r.shape(1, 3), -6, 7), Tensor::of<int64_t>(6),
                      r.numbers(type, {2}, 0, 9)})
           .set("axis", r.between(-1, 1))
           .known(2);
     }},
    {"Range",
     {DType::f32, DType::i64},
     [](Random& r, DType type) {
       return OpCase("Range", 11,
                     {r.numbers(type, {}, 0, 5), r.numbers(type, {}, 20, 30),
                      r.numbers(type, {}, 1, 3)})
           .known(7);
     }},
    {"ConstantOfShape",
     {DType::f32, DType::i64},
     [](Random& r, DType type) {
       return OpCase("ConstantOfShape", 9, {r.integers({r.between(1, 9), 3})})
           .set("value", r.numbers(type, {1}, 1, 9))
           .known(1);
     }},
    {"EyeLike",
     {DType::f32, DType::f16, DType::i32},
     [](Random& r, DType type) {
       return OpCase("EyeLike", 22, {r.numbers(type, {r.between(1, 9), r.between(1, 9)})})
           .set("k", r.between(-3, 3));
     }},
    {"CumSum", kNumberTypes,
     [](Random& r, DType type) {
       const Shape shape = r.shape(1, 3, 20);
       return OpCase("CumSum", 14, {r.numbers(type, shape, -2, 2), Tensor::of(axis_of(r, shape))})
           .set("exclusive", int64_t{r.coin() ? 1 : 0})
           .set("reverse", int64_t{r.coin() ? 1 : 0})
           .known(2);
     }},
    {"CumProd", kNumberTypes,
     [](Random& r, DType type) {
       const Shape shape = r.shape(1, 3, 5);
       return OpCase("CumProd", 26, {r.numbers(type, shape, -2, 2), Tensor::of(axis_of(r, shape))})
           .known(2);
     }},
    {"ReverseSequence", kMovedTypes,
     [](Random& r, DType type) {
       const int64_t batch = r.between(0, 1);
       return OpCase("ReverseSequence", 10,
                     {r.numbers(type, {4, 4, 3}, 0, 99), r.numbers(DType::i64, {4}, 1, 4.9)})
           .set("batch_axis", batch)
           .set("time_axis", 1 - batch);
     }},
};

class CudaDataMovement : public testing::TestWithParam<OpRow> {};

TEST_P(CudaDataMovement, MatchesTheCpu) { check(GetParam(), test_context()); }

INSTANTIATE_TEST_SUITE_P(Operators, CudaDataMovement, testing::ValuesIn(kMoves), name_of_row);

// NCHW to NHWC interleave of few channels, and back: sizes below and above a block's, and ones that
// are not a multiple of a thread's.
TEST(CudaOperators, InterleaveOfFewChannelsMatchesTheCpu) {
  Random r(3);
  for (const DType type : kMovedTypes)
    for (const int64_t few : {2, 3, 4, 5})
      for (const int64_t many : {100, 512, 513, 1020, 2048, 2056, 4100, 12544})
        for (const int64_t batch : {1, 3})
          for (const bool back : {false, true}) {
            const Shape shape{batch, back ? many : few, back ? few : many};
            SCOPED_TRACE(std::string(to_string(type)) + " " + to_string(shape));
            const OpCase what = OpCase("Transpose", 13, {r.numbers(type, shape, 0, 199)})
                                    .set("perm", Integers{0, 2, 1});
            const auto want = on_cpu(what), got = on_gpu(what, want, test_context());
            ASSERT_EQ(got.size(), 1u);
            EXPECT_EQ(worst_error(got[0], want[0]), 0);
          }
}

}  // namespace
}  // namespace sluice::engine::cuda

// Every elementwise operator on CUDA against the CPU.
#include "engine/exec/cuda/context/nvrtc.h"
#include "engine/exec/cuda/nodes/op_cases_for_tests.h"
#include "engine/graph/fused_ops.h"
#include "engine/graph/graph_editor.h"

namespace sluice::engine::cuda {
namespace {

// Two shapes that broadcast to each other.
std::pair<Shape, Shape> broadcast_shapes(Random& random) {
  Shape a = random.shape(1, 4), b;
  if (random.coin()) a[a.rank() - 1] *= 8;  // wide enough for vector loads
  const auto skip = static_cast<int>(random.between(0, a.rank()));
  for (int i = skip; i < a.rank(); ++i) b.push_back(random.coin() ? a[i] : 1);
  if (random.coin() && a.rank() > 1) a[0] = 1;
  return {a, b};
}

struct Unary {
  const char* op;
  int version;
  double low, high;
  bool integers;
};
std::ostream& operator<<(std::ostream& to, const Unary& unary) { return to << unary.op; }

const Unary kUnary[] = {
    {"Abs", 13, -3, 3, true},          {"Acos", 22, -1, 1, false},
    {"Acosh", 22, 1, 5, false},        {"Asin", 22, -1, 1, false},
    {"Asinh", 22, -3, 3, false},       {"Atan", 22, -3, 3, false},
    {"Atanh", 22, -0.9, 0.9, false},   {"Ceil", 13, -3, 3, false},
    {"Celu", 12, -3, 3, false},        {"Cos", 22, -9, 9, false},
    {"Cosh", 22, -3, 3, false},        {"Elu", 22, -3, 3, false},
    {"Erf", 13, -3, 3, false},         {"Exp", 13, -3, 3, false},
    {"Floor", 13, -3, 3, false},       {"Gelu", 20, -4, 4, false},
    {"HardSigmoid", 22, -4, 4, false}, {"HardSwish", 22, -4, 4, false},
    {"LeakyRelu", 16, -3, 3, false},   {"Log", 13, 0.1, 9, false},
    {"Mish", 22, -4, 4, false},        {"Neg", 13, -9, 9, true},
    {"Reciprocal", 13, 0.2, 4, false}, {"Relu", 14, -3, 3, true},
    {"Round", 22, -4, 4, false},       {"Selu", 22, -3, 3, false},
    {"Shrink", 9, -3, 3, true},        {"Sigmoid", 13, -6, 6, false},
    {"Sign", 13, -3, 3, true},         {"Sin", 22, -9, 9, false},
    {"Sinh", 22, -3, 3, false},        {"Softplus", 22, -5, 5, false},
    {"Softsign", 22, -5, 5, false},    {"Sqrt", 13, 0, 9, false},
    {"Swish", 24, -5, 5, false},       {"Tan", 22, -1.2, 1.2, false},
    {"Tanh", 13, -4, 4, false},        {"ThresholdedRelu", 22, -3, 3, false},
};

class CudaUnaryFunction : public testing::TestWithParam<Unary> {};

TEST_P(CudaUnaryFunction, MatchesTheCpu) {
  const Unary& unary = GetParam();
  std::vector<DType> types = kRealTypes;
  if (unary.integers) types.insert(types.end(), {DType::i8, DType::i32, DType::i64});
  for (const DType type : types)
    for (unsigned seed = 0; seed < 2; ++seed) {
      Random random(seed);
      const OpCase what(unary.op, unary.version,
                        {random.numbers(type, random.shape(0, 4, 17), unary.low, unary.high)});
      SCOPED_TRACE(std::string(unary.op) + " of " + std::string(to_string(type)));
      const auto want = on_cpu(what), got = on_gpu(what, want, test_context());
      if (got.empty()) continue;
      const double error = worst_error(got[0], want[0]);
      EXPECT_LE(error, 16);
      if (seed == 1)
        std::printf("%-18s %-5s worst %6.2f roundings, at %s\n", unary.op,
                    std::string(to_string(type)).c_str(), error,
                    to_string(want[0].shape()).c_str());
    }
}

INSTANTIATE_TEST_SUITE_P(Elementwise, CudaUnaryFunction, testing::ValuesIn(kUnary),
                         [](const auto& unary) { return case_name(unary.param.op); });

struct Binary {
  const char* op;
  int version;
  double low, high;
  std::vector<DType> types;
};
std::ostream& operator<<(std::ostream& to, const Binary& binary) { return to << binary.op; }

const std::vector<DType> kOrdered{DType::f32, DType::f16, DType::bf16, DType::i8,
                                  DType::i32, DType::i64, DType::u64};
const std::vector<DType> kBits{DType::u8, DType::i32, DType::u64};
const std::vector<DType> kTruth{DType::boolean};

const Binary kBinary[] = {
    {"Add", 14, -9, 9, kOrdered},      {"Sub", 14, -9, 9, kOrdered},
    {"Mul", 14, -9, 9, kOrdered},      {"Div", 14, 1, 9, kOrdered},
    {"Pow", 15, 0.5, 4, kNumberTypes}, {"Min", 13, -9, 9, kOrdered},
    {"Max", 13, -9, 9, kOrdered},      {"Sum", 13, -9, 9, kRealTypes},
    {"Mean", 13, -9, 9, kRealTypes},   {"PRelu", 16, -3, 3, kRealTypes},
    {"SwiGLU", 28, -3, 3, kRealTypes}, {"Equal", 19, 0, 4, kOrdered},
    {"Less", 13, 0, 4, kOrdered},      {"LessOrEqual", 16, 0, 4, kOrdered},
    {"Greater", 13, 0, 4, kOrdered},   {"GreaterOrEqual", 16, 0, 4, kOrdered},
    {"BitwiseAnd", 18, 0, 99, kBits},  {"BitwiseOr", 18, 0, 99, kBits},
    {"BitwiseXor", 18, 0, 99, kBits},  {"And", 7, 0, 1, kTruth},
    {"Or", 7, 0, 1, kTruth},           {"Xor", 7, 0, 1, kTruth},
};

class CudaBinaryFunction : public testing::TestWithParam<Binary> {};

TEST_P(CudaBinaryFunction, MatchesTheCpuWithBroadcast) {
  const Binary& binary = GetParam();
  for (const DType type : binary.types)
    for (unsigned seed = 0; seed < 4; ++seed) {
      Random random(seed + 31);
      const auto [a, b] = broadcast_shapes(random);
      const bool one_sided = std::string_view(binary.op) == "PRelu";
      const OpCase what(
          binary.op, binary.version,
          {random.numbers(type, one_sided ? broadcast(a, b) : a, binary.low, binary.high),
           random.numbers(type, b, binary.low, binary.high)});
      SCOPED_TRACE(std::string(binary.op) + " of " + std::string(to_string(type)) + " " +
                   to_string(a) + " and " + to_string(b));
      const auto want = on_cpu(what), got = on_gpu(what, want, test_context());
      if (got.empty()) continue;
      const double error = worst_error(got[0], want[0]);
      EXPECT_LE(error, 16);
      if (seed == 3)
        std::printf("%-18s %-7s worst %6.2f roundings, at %s and %s\n", binary.op,
                    std::string(to_string(type)).c_str(), error, to_string(a).c_str(),
                    to_string(b).c_str());
    }
}

INSTANTIATE_TEST_SUITE_P(Elementwise, CudaBinaryFunction, testing::ValuesIn(kBinary),
                         [](const auto& binary) { return case_name(binary.param.op); });

const OpRow kRows[] = {
    {"Mod",
     {DType::i32, DType::i64, DType::u8},
     [](Random& r, DType type) {
       const Shape shape = r.shape(1, 3);
       return OpCase(
           "Mod", 13,
           {r.numbers(type, shape, type == DType::u8 ? 0 : -9, 9), r.numbers(type, shape, 1, 5)});
     }},
    {"Mod fmod", kRealTypes,
     [](Random& r, DType type) {
       const Shape shape = r.shape(1, 3);
       return OpCase("Mod", 13, {r.numbers(type, shape, -9, 9), r.numbers(type, shape, 1, 5)})
           .set("fmod", std::int64_t{1});
     }},
    {"BitShift",
     {DType::u8, DType::u32, DType::u64},
     [](Random& r, DType type) {
       const Shape shape = r.shape(1, 3);
       return OpCase("BitShift", 11,
                     {r.numbers(type, shape, 0, 200), r.numbers(type, shape, 0, 12)})
           .set("direction", std::string(r.coin() ? "LEFT" : "RIGHT"));
     }},
    {"BitwiseNot",
     {DType::u8, DType::i32},
     [](Random& r, DType type) {
       return OpCase("BitwiseNot", 18, {r.numbers(type, r.shape(1, 3), 0, 90)});
     }},
    {"Not",
     {DType::boolean},
     [](Random& r, DType type) { return OpCase("Not", 1, {r.numbers(type, r.shape(1, 3))}); }},
    {"IsNaN", kRealTypes,
     [](Random& r, DType type) {
       const Tensor x = r.numbers(DType::f32, r.shape(1, 3), -1, 1);
       for (float& value : x.values<float>()) value = std::sqrt(value);
       OpCase c("Cast", 13, {x});
       c.set("to", static_cast<std::int64_t>(type));
       return OpCase("IsNaN", 13, on_cpu(c));
     }},
    {"IsInf", kRealTypes,
     [](Random& r, DType type) {
       const Tensor x = r.numbers(DType::f32, r.shape(1, 3), -2, 2);
       for (float& value : x.values<float>()) value = std::floor(value) / 0.0f;
       OpCase c("Cast", 13, {x});
       c.set("to", static_cast<std::int64_t>(type));
       return OpCase("IsInf", 10, on_cpu(c)).set("detect_negative", std::int64_t{r.coin() ? 1 : 0});
     }},
    {"Clip", kNumberTypes,
     [](Random& r, DType type) {
       return OpCase(
           "Clip", 13,
           {r.numbers(type, r.shape(1, 4), -9, 9),
            r.coin() ? r.numbers(type, {}, -4, -1) : Tensor(), r.numbers(type, {}, 1, 4)});
     }},
    {"Where", kMovedTypes,
     [](Random& r, DType type) {
       const auto [a, b] = broadcast_shapes(r);
       return OpCase(
           "Where", 16,
           {r.numbers(DType::boolean, b), r.numbers(type, a, 0, 99), r.numbers(type, b, 0, 99)});
     }},
    {"Cast",
     {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::i64, DType::u64,
      DType::boolean},
     [](Random& r, DType type) {
       constexpr DType kTo[] = {DType::f32, DType::f64, DType::f16, DType::bf16,
                                DType::i32, DType::i64, DType::u8,  DType::boolean};
       const DType to = kTo[r.between(0, 7)];
       return OpCase("Cast", 13, {r.numbers(type, r.shape(1, 4), 0, 90)})
           .set("to", static_cast<std::int64_t>(to));
     }},
    {"CastLike", kRealTypes,
     [](Random& r, DType type) {
       return OpCase("CastLike", 19,
                     {r.numbers(DType::i32, r.shape(1, 3), -90, 90), r.numbers(type, {1})});
     }},
    {"Gelu tanh", kRealTypes,
     [](Random& r, DType type) {
       return OpCase("Gelu", 20, {r.numbers(type, r.shape(1, 4), -4, 4)})
           .set("approximate", std::string("tanh"));
     }},
    {"QuantizeLinear",
     {DType::i8, DType::u8},
     [](Random& r, DType type) {
       const Shape shape = r.shape(2, 4);
       const bool one = r.coin();
       const Shape scales = one ? Shape{} : Shape{shape[1]};
       return OpCase("QuantizeLinear", 21,
                     {r.numbers(DType::f32, shape, -9, 9), r.numbers(DType::f32, scales, 0.02, 0.1),
                      r.numbers(type, scales, 0, 9)});
     }},
    {"DequantizeLinear",
     {DType::i8, DType::u8},
     [](Random& r, DType type) {
       const Shape shape = r.shape(2, 4);
       const Shape scales = r.coin() ? Shape{} : Shape{shape[1]};
       return OpCase("DequantizeLinear", 21,
                     {r.numbers(type, shape, 0, 99), r.numbers(DType::f32, scales, 0.02, 0.1),
                      r.numbers(type, scales, 0, 9)});
     }},
    {"Dropout", kRealTypes,
     [](Random& r, DType type) { return OpCase("Dropout", 13, {r.numbers(type, r.shape(1, 3))}); }},
    {"BatchNormalization", kRealTypes,
     [](Random& r, DType type) {
       const Shape shape = r.shape(2, 4);
       const Shape c{shape[1]};
       return OpCase("BatchNormalization", 15,
                     {r.numbers(type, shape), r.numbers(type, c), r.numbers(type, c),
                      r.numbers(type, c), r.numbers(type, c, 0.2, 2)})
           .allows(2);
     }},
    {"Chain", kRealTypes,
     [](Random& r, DType type) {
       const auto [a, b] = broadcast_shapes(r);
       using Op = engine::Chain::Op;
       engine::Chain chain{3, {}};
       chain.instructions = {
           {Op::multiply, 0, 1}, {Op::add, 3, 2},     {Op::gelu, 4}, {Op::constant, -1, -1, 0.5f},
           {Op::multiply, 5, 6}, {Op::maximum, 7, 0}, {Op::tanh, 8}};
       OpCase c("Chain", 1, {r.numbers(type, a), r.numbers(type, b), r.numbers(type, {})},
                std::string(kFused));
       write(chain, c.node.attributes);
       return c;
     }},
};

class CudaElementwiseOperator : public testing::TestWithParam<OpRow> {
 protected:
  static void SetUpTestSuite() {
    std::printf("kernels are %s\n", test_context().part<NvrtcKernels>().available()
                                        ? "compiled by NVRTC"
                                        : "interpreted, NVRTC is not installed");
  }
};

TEST_P(CudaElementwiseOperator, MatchesTheCpu) { check(GetParam(), test_context()); }

INSTANTIATE_TEST_SUITE_P(Elementwise, CudaElementwiseOperator, testing::ValuesIn(kRows),
                         name_of_row);

}  // namespace
}  // namespace sluice::engine::cuda

// GEMMs, convolutions and pools on the GPU against the operators on the CPU.
#include <array>

#include "engine/exec/cuda/cuda_program.h"
#include "engine/exec/cuda/program_for_gpu_tests.h"

namespace sluice::engine {
namespace {

// "5x6" for a list of 5 and 6.
template <class List>
std::string joined(const List& sizes) {
  std::string text;
  for (const std::int64_t size : sizes) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

// The inputs that exist.
std::vector<Tensor> present(const Tensor& x, const Tensor& residual) {
  std::vector<Tensor> all;
  for (const Tensor& tensor : {x, residual})
    if (tensor) all.push_back(tensor);
  return all;
}

// ---- GEMM -------------------------------------------------------------------------------------

using GemmSizes = std::array<std::int64_t, 3>;  // m, k, n
class CudaLinearOfShape : public CudaProgramCases<GemmSizes> {};

TEST_P(CudaLinearOfShape, MatchesTheCpu) {
  const auto [m, k, n] = GetParam();
  for (const Precision precision : kAll)
    check(linear(k, n, "none", true, false), {varied({m, k}, 1)}, precision);
}

INSTANTIATE_TEST_SUITE_P(Gemm, CudaLinearOfShape,
                         testing::Values(GemmSizes{1, 8, 8}, GemmSizes{7, 33, 5},
                                         GemmSizes{128, 384, 1536}, GemmSizes{513, 768, 100},
                                         GemmSizes{4096, 64, 3}),
                         [](const auto& sizes) { return joined(sizes.param); });

class CudaLinearWithActivation : public CudaProgramCases<const char*> {};

TEST_P(CudaLinearWithActivation, MatchesTheCpu) {
  const char* const activation = GetParam();
  for (const Precision precision : kAll)
    for (const bool residual : {false, true})
      for (const bool bias : {false, true}) {
        SCOPED_TRACE(testing::Message() << activation << residual << bias);
        const Tensor added = residual ? varied({3, 40, 64}, 4) : Tensor();
        check(linear(96, 64, activation, bias, residual), present(varied({3, 40, 96}, 1), added),
              precision);
      }
}

INSTANTIATE_TEST_SUITE_P(Gemm, CudaLinearWithActivation,
                         testing::Values("none", "relu", "gelu", "gelu_tanh", "tanh", "sigmoid",
                                         "silu", "hard_swish", "clip"),
                         [](const auto& activation) { return case_name(activation.param); });

struct MatMulShapes {
  Shape a, b;
};
std::ostream& operator<<(std::ostream& to, const MatMulShapes& shapes) {
  return to << to_string(shapes.a) << " x " << to_string(shapes.b);
}
const MatMulShapes kMatMulShapes[] = {{{5, 6}, {6, 7}},
                                      {{4, 5, 6}, {4, 6, 7}},
                                      {{2, 3, 5, 8}, {2, 3, 8, 7}},
                                      {{2, 3, 5, 8}, {8, 7}},
                                      {{5, 8}, {4, 8, 7}},
                                      {{2, 1, 5, 8}, {1, 3, 8, 7}},
                                      {{2, 1, 5, 8}, {2, 3, 8, 7}},
                                      {{8}, {8, 7}},
                                      {{4, 5, 8}, {8}},
                                      {{8}, {8}},
                                      {{2, 12, 64, 32}, {2, 12, 32, 64}}};

class CudaMatMul : public CudaProgramCases<MatMulShapes> {};

TEST_P(CudaMatMul, MatchesTheCpuWithBroadcast) {
  const auto& [a, b] = GetParam();
  for (const Precision precision : kAll) {
    GraphBuilder g;
    const ValueId x = g.input("a"), y = g.input("b");
    // A single sum can nearly cancel.
    const double slack = a.rank() == 1 && b.rank() == 1 ? 4 : 1;
    check(g.output(g.node("MatMul", {x, y})).take(), {varied(a, 1), varied(b, 2)}, precision,
          slack);
  }
}

INSTANTIATE_TEST_SUITE_P(Gemm, CudaMatMul, testing::ValuesIn(kMatMulShapes),
                         [](const auto& shapes) {
                           return joined(shapes.param.a) + "By" + joined(shapes.param.b);
                         });

TEST_F(CudaProgramTest, GemmMatchesTransposedAndScaled) {
  for (const Precision precision : kAll)
    for (const int flags : {0, 1, 2, 3}) {
      SCOPED_TRACE(flags);
      GraphBuilder g;
      const ValueId a = g.input("a"), b = g.input("b"), c = g.input("c");
      const Graph graph = g.output(g.node("Gemm", {a, b, c},
                                          {{"transA", std::int64_t{flags & 1}},
                                           {"transB", std::int64_t{flags >> 1}},
                                           {"alpha", 0.5f},
                                           {"beta", 2.0f}}))
                              .take();
      check(graph,
            {varied((flags & 1) != 0 ? Shape{40, 24} : Shape{24, 40}, 1),
             varied((flags & 2) != 0 ? Shape{16, 40} : Shape{40, 16}, 2), varied({24, 16}, 3)},
            precision);
    }
}

// ---- convolutions -----------------------------------------------------------------------------

struct ConvolutionCase {
  const char* name;
  std::int64_t batch, height, width, in, out, rows, columns, stride, dilation, pad, group;
  const char* activation;
  bool residual;
};

std::ostream& operator<<(std::ostream& to, const ConvolutionCase& c) {
  return to << c.batch << "x" << c.height << "x" << c.width << "x" << c.in << " -> " << c.out
            << ", window " << c.rows << "x" << c.columns << " by " << c.stride << ", dilation "
            << c.dilation << ", pad " << c.pad << ", groups " << c.group << ", " << c.activation
            << (c.residual ? ", residual" : "");
}

Graph convolution(const ConvolutionCase& c) {
  GraphBuilder b;
  const std::int64_t ins = c.in / c.group;
  std::vector<ValueId> inputs{
      b.input("x"),
      b.constant(weights({c.out, ins, c.rows, c.columns}, ins * c.rows * c.columns, 2)),
      b.constant(varied({c.out}, 3))};
  if (c.residual) inputs.push_back(b.input("residual"));
  using List = std::vector<std::int64_t>;
  return b
      .output(b.node("Conv", inputs,
                     {{"strides", List{c.stride, c.stride}},
                      {"dilations", List{c.dilation, c.dilation}},
                      {"pads", List{c.pad, c.pad, c.pad, c.pad}},
                      {"group", c.group},
                      {"activation", std::string(c.activation)},
                      {"low", 0.0f},
                      {"high", 6.0f}},
                     "sluice"))
      .take();
}

std::int64_t outs(std::int64_t in, std::int64_t window, const ConvolutionCase& c) {
  return (in + 2 * c.pad - (window - 1) * c.dilation - 1) / c.stride + 1;
}

const ConvolutionCase kConvolutions[] = {
    {"Window3WithResidual", 2, 14, 14, 64, 64, 3, 3, 1, 1, 1, 1, "relu", true},
    {"Window3", 2, 14, 14, 64, 64, 3, 3, 1, 1, 1, 1, "relu", false},
    {"PointwiseWithResidual", 1, 28, 28, 64, 256, 1, 1, 1, 1, 0, 1, "none", true},
    {"PointwiseOfFewFilters", 3, 28, 28, 64, 32, 1, 1, 1, 1, 0, 1, "relu", true},
    {"PointwiseByStride2", 2, 28, 28, 64, 128, 1, 1, 2, 1, 0, 1, "none", false},
    {"Window7OfThreeChannels", 2, 56, 56, 3, 32, 7, 7, 2, 1, 3, 1, "relu", false},
    {"DilatedWindow3x5", 1, 15, 17, 24, 40, 3, 5, 2, 2, 3, 1, "silu", false},
    {"FourGroups", 2, 14, 14, 32, 64, 3, 3, 1, 1, 1, 4, "relu", false},
    {"Depthwise", 2, 14, 14, 64, 64, 3, 3, 2, 1, 1, 64, "clip", false},
    {"DepthwiseOfTwoFiltersPerChannel", 2, 9, 9, 6, 12, 3, 3, 1, 1, 1, 6, "none", true},
    {"OddChannels", 1, 12, 10, 5, 7, 2, 3, 1, 1, 0, 1, "hard_swish", true},
    {"PointwiseWithGelu", 1, 8, 8, 16, 16, 1, 1, 1, 1, 0, 1, "gelu", true},
};

class CudaConvolution : public CudaProgramCases<ConvolutionCase> {};

TEST_P(CudaConvolution, MatchesTheCpu) {
  const ConvolutionCase& c = GetParam();
  for (const Precision precision : kAll) {
    SCOPED_TRACE(c);
    const Shape out{c.batch, outs(c.height, c.rows, c), outs(c.width, c.columns, c), c.out};
    const Tensor added = c.residual ? varied(out, 4) : Tensor();
    check(convolution(c), present(varied({c.batch, c.height, c.width, c.in}, 1), added), precision);
  }
}

INSTANTIATE_TEST_SUITE_P(Convolution, CudaConvolution, testing::ValuesIn(kConvolutions),
                         [](const auto& c) { return case_name(c.param.name); });

class CudaPool : public CudaProgramCases<const char*> {};

TEST_P(CudaPool, MatchesTheCpu) {
  const char* const op = GetParam();
  for (const Precision precision : {Precision::f32, Precision::f16, Precision::bf16})
    for (const std::int64_t channels : {5, 64})
      for (const std::int64_t counts : {0, 1}) {
        SCOPED_TRACE(testing::Message() << op << " of " << channels << ", " << counts);
        GraphBuilder b;
        const ValueId x = b.input("x");
        using List = std::vector<std::int64_t>;
        const Graph graph = b.output(b.node(op, {x},
                                            {{"kernel", List{3, 2}},
                                             {"strides", List{2, 1}},
                                             {"pads", List{1, 0, 1, 1}},
                                             {"count_include_pad", counts}},
                                            "sluice"))
                                .take();
        check(graph, {varied({2, 13, 11, channels}, 1)}, precision);
      }
}

INSTANTIATE_TEST_SUITE_P(Pool, CudaPool, testing::Values("MaxPool", "AveragePool"),
                         [](const auto& op) { return case_name(op.param); });

}  // namespace
}  // namespace sluice::engine

// Products, convolutions and pools on the GPU against the operators on the CPU.
#include <array>

#include "engine/exec/cuda/program_for_gpu_tests.h"

namespace sluice::engine {
namespace {

// Those that are there.
std::vector<Tensor> present(const Tensor& x, const Tensor& residual) {
  std::vector<Tensor> all;
  for (const Tensor& tensor : {x, residual})
    if (tensor) all.push_back(tensor);
  return all;
}

// ---- products ---------------------------------------------------------------------------------

TEST_F(CudaProgramTest, LinearAgreesForEveryShape) {
  for (const Precision precision : kAll)
    for (const auto& [m, k, n] : std::vector<std::array<std::int64_t, 3>>{
             {1, 8, 8}, {7, 33, 5}, {128, 384, 1536}, {513, 768, 100}, {4096, 64, 3}}) {
      SCOPED_TRACE(testing::Message() << m << " x " << k << " x " << n);
      check(linear(k, n, "none", true, false), {varied({m, k}, 1)}, precision);
    }
}

TEST_F(CudaProgramTest, LinearAgreesForEveryActivation) {
  for (const Precision precision : kAll)
    for (const char* activation :
         {"none", "relu", "gelu", "gelu_tanh", "tanh", "sigmoid", "silu", "hard_swish", "clip"})
      for (const bool residual : {false, true})
        for (const bool bias : {false, true}) {
          SCOPED_TRACE(testing::Message() << activation << residual << bias);
          const Tensor added = residual ? varied({3, 40, 64}, 4) : Tensor();
          check(linear(96, 64, activation, bias, residual), present(varied({3, 40, 96}, 1), added),
                precision);
        }
}

TEST_F(CudaProgramTest, MatMulAgreesHoweverItsInputsStretch) {
  const std::vector<std::pair<Shape, Shape>> shapes{{{5, 6}, {6, 7}},
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
  for (const Precision precision : kAll)
    for (const auto& [a, b] : shapes) {
      SCOPED_TRACE(to_string(a) + " x " + to_string(b));
      GraphBuilder g;
      const ValueId x = g.input("a"), y = g.input("b");
      // One sum alone can nearly cancel out.
      const double slack = a.rank() == 1 && b.rank() == 1 ? 4 : 1;
      check(g.output(g.node("MatMul", {x, y})).take(), {varied(a, 1), varied(b, 2)}, precision,
            slack);
    }
}

TEST_F(CudaProgramTest, GemmAgreesTransposedAndScaled) {
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

struct Case {
  std::int64_t batch, height, width, in, out, rows, columns, stride, dilation, pad, group;
  const char* activation;
  bool residual;
};

std::ostream& operator<<(std::ostream& to, const Case& c) {
  return to << c.batch << "x" << c.height << "x" << c.width << "x" << c.in << " -> " << c.out
            << ", window " << c.rows << "x" << c.columns << " by " << c.stride << ", dilation "
            << c.dilation << ", pad " << c.pad << ", groups " << c.group << ", " << c.activation
            << (c.residual ? ", residual" : "");
}

Graph convolution(const Case& c) {
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

std::int64_t outs(std::int64_t in, std::int64_t window, const Case& c) {
  return (in + 2 * c.pad - (window - 1) * c.dilation - 1) / c.stride + 1;
}

TEST_F(CudaProgramTest, ConvolutionsAgree) {
  const Case cases[] = {
      {2, 14, 14, 64, 64, 3, 3, 1, 1, 1, 1, "relu", true},
      {2, 14, 14, 64, 64, 3, 3, 1, 1, 1, 1, "relu", false},
      {1, 28, 28, 64, 256, 1, 1, 1, 1, 0, 1, "none", true},
      {3, 28, 28, 64, 32, 1, 1, 1, 1, 0, 1, "relu", true},
      {2, 28, 28, 64, 128, 1, 1, 2, 1, 0, 1, "none", false},
      {2, 56, 56, 3, 32, 7, 7, 2, 1, 3, 1, "relu", false},
      {1, 15, 17, 24, 40, 3, 5, 2, 2, 3, 1, "silu", false},
      {2, 14, 14, 32, 64, 3, 3, 1, 1, 1, 4, "relu", false},
      {2, 14, 14, 64, 64, 3, 3, 2, 1, 1, 64, "clip", false},
      {2, 9, 9, 6, 12, 3, 3, 1, 1, 1, 6, "none", true},
      {1, 12, 10, 5, 7, 2, 3, 1, 1, 0, 1, "hard_swish", true},
      {1, 8, 8, 16, 16, 1, 1, 1, 1, 0, 1, "gelu", true},
  };
  for (const Precision precision : kAll)
    for (const Case& c : cases) {
      SCOPED_TRACE(c);
      const Shape out{c.batch, outs(c.height, c.rows, c), outs(c.width, c.columns, c), c.out};
      const Tensor added = c.residual ? varied(out, 4) : Tensor();
      check(convolution(c), present(varied({c.batch, c.height, c.width, c.in}, 1), added),
            precision);
    }
}

TEST_F(CudaProgramTest, PoolsAgree) {
  for (const Precision precision : {Precision::f32, Precision::f16, Precision::bf16})
    for (const char* op : {"MaxPool", "AveragePool"})
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

}  // namespace
}  // namespace sluice::engine

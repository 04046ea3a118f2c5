// Plans for a GPU: chosen algorithms and compiled code are restored; those that do not work are
// made again.
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "engine/exec/cuda/cuda_program.h"
#include "engine/exec/cuda/program_for_gpu_tests.h"
#include "engine/io/onnx_export.h"
#include "engine/open.h"

namespace sluice::engine {
namespace {

namespace fs = std::filesystem;
using Choices = cuda::Context::Choices;

// Convolutions of three kinds, a GEMM with GELU and an elementwise chain.
Graph network() {
  GraphBuilder b;
  using List = std::vector<std::int64_t>;
  const auto conv = [&](ValueId from, std::int64_t in, std::int64_t out, std::int64_t window,
                        std::int64_t group, unsigned seed) {
    const std::int64_t pad = window / 2;
    return b.node(
        "Conv",
        {from,
         b.constant(weights({out, in / group, window, window}, in / group * window * window, seed)),
         b.constant(varied({out}, seed + 1))},
        {{"kernel_shape", List{window, window}},
         {"pads", List{pad, pad, pad, pad}},
         {"group", group}});
  };
  ValueId x = b.node("Relu", {conv(b.input("x"), 3, 32, 3, 1, 1)});
  x = b.node("Relu", {conv(x, 32, 32, 3, 32, 3)});
  x = b.node("Add", {x, conv(x, 32, 32, 1, 1, 5)});
  x = b.node("Flatten", {b.node("GlobalAveragePool", {x})});
  x = b.node("MatMul", {x, b.constant(weights({32, 64}, 32, 7))});
  x = b.node("Gelu", {b.node("Add", {x, b.constant(varied({64}, 8))})});
  x = b.node("Mul", {b.node("Sin", {x}), b.node("Cos", {x})});
  Graph graph = b.output(x).take();
  for (Node& node : graph.nodes) node.version = 20;
  return graph;
}

class CudaPlanTest : public CudaProgramTest {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  Session session(const Choices& brought, std::shared_ptr<cuda::Context>& context) {
    context = make_cuda_context({});
    context->restore_choices(brought);
    return {network(), workers, {.gpu = context, .precision = DType::f16}};
  }
  static Tensor run(const Session& session) {
    const Datum x(varied({2, 3, 32, 32}, 9));
    return session.run(std::span(&x, 1))[0].tensor;
  }
  static bool same(const Tensor& a, const Tensor& b) {
    return a.bytes() == b.bytes() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
  }
  OpenOptions options() const {
    return {.session = {.gpu = make_cuda_context({}), .precision = DType::f16},
            .plans = {folder_ / "plans"},
            .version = "1"};
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / ("cuda-plan-" + std::to_string(getpid()));
};

TEST_F(CudaPlanTest, RestoredChoicesAreUsedUnchanged) {
  std::shared_ptr<cuda::Context> first, second;
  const Session before = session({}, first);
  const Tensor want = run(before);
  ASSERT_EQ(before.gpu_failure(), "");
  const Choices choices = first->choices();
  std::size_t bytes = 0;
  for (const auto& [of, what] : choices) {
    bytes += of.size() + what.size();
    std::printf("%.100s: %.60s (%zu bytes)\n", of.c_str(), what.c_str(), what.size());
  }
  std::printf("%zu choices, %zu bytes\n", choices.size(), bytes);
  const Session after = session(choices, second);
  EXPECT_TRUE(same(run(after), want));
  EXPECT_EQ(second->choices(), choices) << "something was measured again";
}

TEST_F(CudaPlanTest, ChoicesThatDoNotWorkAreMadeAgain) {
  std::shared_ptr<cuda::Context> first, second;
  const Tensor want = run(session({}, first));
  for (const std::string& wrong :
       {std::string("none of these"), std::string("120 99999 1=1\n{\"no\": \"plan\"}"),
        std::string("1 2 3 4 5 6 7 8 9 a b"), std::string()}) {
    Choices choices = first->choices();
    for (auto& [of, what] : choices) what = wrong;
    const Session session_of = session(choices, second);
    EXPECT_LT(distance(run(session_of), want), tolerance(Precision::f16)) << wrong;
    EXPECT_EQ(session_of.gpu_failure(), "") << wrong;
  }
}

TEST_F(CudaPlanTest, SecondStartUsesThePlanAndComputesTheSameResults) {
  const fs::path model = folder_ / "model.onnx";
  write_onnx(network(), model);
  const OpenOptions here = options();
  const OpenModel first = open_model(model, workers, here);
  std::printf("%s; %s\n", first.key.device.c_str(), first.key.software.c_str());
  const Tensor want = run(*first.session);
  EXPECT_TRUE(keep_plan(first, here.plans));
  const OpenOptions again = options();
  const OpenModel second = open_model(model, workers, again);
  EXPECT_EQ(second.refused, "");
  EXPECT_NE(second.from, "");
  EXPECT_TRUE(same(run(*second.session), want));
  EXPECT_EQ(again.session.gpu->choices(), here.session.gpu->choices());
  EXPECT_FALSE(keep_plan(second, again.plans));
  OpenOptions wide = options();
  wide.session.precision = DType::f32;
  EXPECT_EQ(open_model(model, workers, wide).from, "") << "another precision";
}

}  // namespace
}  // namespace sluice::engine

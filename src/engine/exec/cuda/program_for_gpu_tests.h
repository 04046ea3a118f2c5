// Runs graphs as GPU programs and by the operators on the CPU.
#pragma once

#include <gmock/gmock.h>

#include <cmath>

#include "engine/exec/cuda/case_name_for_tests.h"
#include "engine/exec/cuda/cuda_program.h"
#include "engine/graph/graph_for_tests.h"
#include "engine/ops/one_op_for_tests.h"
#include "engine/passes/passes.h"
#include "engine/session/session.h"
#include "engine/shapes/specialize.h"

namespace sluice::engine {

enum class Precision { f32, tf32, f16, bf16 };
constexpr Precision kAll[] = {Precision::f32, Precision::tf32, Precision::f16, Precision::bf16};

// The allowed norm of the difference relative to the norm of the result.
inline double tolerance(Precision precision) {
  switch (precision) {
    case Precision::f32: return 2e-5;
    case Precision::tf32: return 2e-3;
    case Precision::f16: return 3e-3;
    case Precision::bf16: return 2e-2;
  }
  return 0;
}
inline const char* name(Precision precision) {
  constexpr const char* kNames[] = {"f32", "tf32", "f16", "bf16"};
  return kNames[static_cast<int>(precision)];
}

// Weights scaled by 1/sqrt(k), so that a GEMM keeps the magnitude of its input.
inline Tensor weights(const Shape& shape, std::int64_t k, unsigned seed) {
  const Tensor made = varied(shape, seed);
  for (float& w : made.values<float>()) w *= std::sqrt(3.0f / static_cast<float>(k));
  return made;
}

inline std::string kernels(const CudaProgram& program) {
  std::string all;
  for (const ScheduleStep& step : program.schedule().steps)
    all += "  " + describe(*step.node) + ": " + std::string(step.kernel->name()) + "\n";
  const CudaReport report = program.report();
  all += "  arena " + std::to_string(report.arena) + " bytes, at least " +
         std::to_string(report.peak_live) + ", weights " + std::to_string(report.constants);
  if (!report.not_captured.empty()) all += ", not captured: " + report.not_captured;
  return all + "\n";
}

inline double distance(const Tensor& got, const Tensor& want) {
  if (got.dtype() != DType::f32 || !(got.shape() == want.shape())) return 1e9;
  double off = 0, size = 1e-30;
  for (std::int64_t i = 0; i < got.size(); ++i) {
    const double g = got.values<float>()[static_cast<std::size_t>(i)];
    const double w = want.values<float>()[static_cast<std::size_t>(i)];
    off += (g - w) * (g - w);
    size += w * w;
  }
  return std::sqrt(off / size);  // NaN where one is
}

// A context for each precision, made when it is first needed.
class ContextsByPrecision {
 public:
  std::shared_ptr<cuda::Context> get(Precision precision) {
    auto& made = contexts_[static_cast<int>(precision)];
    if (!made) made = make_cuda_context({.tf32 = precision == Precision::tf32});
    return made;
  }

 private:
  std::shared_ptr<cuda::Context> contexts_[4];
};

class CudaProgramTest : public testing::Test {
 protected:
  CudaProgramTest() : CudaProgramTest(std::make_shared<ContextsByPrecision>()) {}
  explicit CudaProgramTest(std::shared_ptr<ContextsByPrecision> contexts)
      : contexts_(std::move(contexts)) {}

  std::shared_ptr<cuda::Context> context(Precision precision) { return contexts_->get(precision); }

  std::unique_ptr<CudaProgram> compile(const Graph& graph, const std::vector<Tensor>& inputs,
                                       Precision precision, bool passes = true) {
    std::vector<TensorType> types;
    for (const Tensor& input : inputs) types.push_back({input.dtype(), input.shape()});
    Graph made = specialize(graph, types, workers);
    if (passes) optimize(made, nullptr, Backend::cuda);
    if (precision == Precision::f16 || precision == Precision::bf16) {
      GraphEditor edit(made);
      to_precision(edit, precision == Precision::f16 ? DType::f16 : DType::bf16);
      edit.finish();
    }
    return make_cuda_program(std::move(made), context(precision), host);
  }

  std::vector<Tensor> expected(const Graph& graph, const std::vector<Tensor>& inputs) {
    const Session plain(graph, workers, {.compile = false});
    std::vector<Datum> given(inputs.begin(), inputs.end());
    std::vector<Tensor> results;
    for (const Datum& datum : plain.run(given)) results.push_back(datum.tensor);
    return results;
  }

  static void expect_close(const CudaProgram& program, const std::vector<Tensor>& got,
                           const std::vector<Tensor>& want, double limit) {
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double off = distance(got[i], want[i]);
      EXPECT_TRUE(off < limit) << "output " << i << " is off by " << off << ", limit " << limit
                               << "\n"
                               << kernels(program);
    }
  }

  // Three runs: launched one by one, captured, replayed.
  void check(const Graph& graph, const std::vector<Tensor>& inputs, Precision precision,
             double slack = 1) {
    SCOPED_TRACE(name(precision));
    const std::vector<Tensor> want = expected(graph, inputs);
    const auto program = compile(graph, inputs, precision);
    for (int i = 0; i < 3; ++i)
      expect_close(*program, program->run(inputs), want, slack * tolerance(precision));
    EXPECT_THAT(program->report().on_host, testing::IsEmpty()) << kernels(*program);
    EXPECT_EQ(program->report().not_captured, "");
  }

  compute::Workers workers;
  std::shared_ptr<cpu::Context> host = std::make_shared<cpu::Context>(workers);

 private:
  const std::shared_ptr<ContextsByPrecision> contexts_;
};

// Runs the cases of a table, each as a test. The tests share their contexts, since making one and
// choosing its algorithms takes time.
template <class Case, class Base = CudaProgramTest>
class CudaProgramCases : public Base, public testing::WithParamInterface<Case> {
 protected:
  CudaProgramCases() : Base(shared_contexts_) {}

  static void SetUpTestSuite() { shared_contexts_ = std::make_shared<ContextsByPrecision>(); }
  static void TearDownTestSuite() { shared_contexts_.reset(); }

 private:
  inline static std::shared_ptr<ContextsByPrecision> shared_contexts_;
};

inline Graph linear(std::int64_t k, std::int64_t n, const std::string& activation, bool bias,
                    bool residual) {
  GraphBuilder b;
  const ValueId x = b.input("x");
  std::vector<ValueId> inputs{x, b.constant(weights({k, n}, k, 2))};
  inputs.push_back(bias ? b.constant(varied({n}, 3)) : kNoValue);
  if (residual) inputs.push_back(b.input("residual"));
  std::vector<std::pair<std::string, Attributes::Any>> attributes{{"activation", activation}};
  if (activation == "clip") {
    attributes.emplace_back("low", -0.5f);
    attributes.emplace_back("high", 0.75f);
  }
  return b.output(b.node("Linear", inputs, attributes, "sluice")).take();
}

}  // namespace sluice::engine

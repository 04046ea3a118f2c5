// Real models on the GPU: f32 matches ONNX Runtime, f16 is within the allowed loss.
#include <limits>

#include "engine/exec/cuda/cuda_program.h"
#include "engine/real_models_for_tests.h"

namespace sluice::engine {
namespace {

TEST_F(RealModelsTest, F16ModelsAreWithinTheAllowedLoss) {
  for_each_model([&](const RealModel& model) {
    const auto session = [&](DType precision, double max_loss) {
      return Session(model.graph, workers,
                     {.gpu = make_cuda_context({}), .precision = precision, .max_loss = max_loss});
    };
    constexpr double kAny = std::numeric_limits<double>::infinity();
    const double plain = loss(session(DType::f32, kAny), model.cases[0]);
    const double all = loss(session(DType::f16, kAny), model.cases[0]);
    const Session measured = session(DType::f16, 0.01);
    const PrecisionReport seen = report(measured, model.cases[0]);
    const double other = loss(measured, model.cases[1]);
    print(model.name, plain, all, seen, other);
    EXPECT_LT(plain, 1e-3);  // the detector amplifies small differences
    EXPECT_LT(loss(measured, model.cases[0]), 0.01);
    EXPECT_LT(other, 0.01);
    EXPECT_EQ(seen.measured, "gpu");
    EXPECT_EQ(measured.gpu_failure(), "");
  });
}

}  // namespace
}  // namespace sluice::engine

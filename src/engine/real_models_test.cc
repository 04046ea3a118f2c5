// Real models in f16, emulated on the CPU.
#include <limits>

#include "engine/real_models_for_tests.h"
#include "engine/session/gpu_for_tests.h"

namespace sluice::engine {
namespace {

TEST_F(RealModelsTest, F16LossIsWithinTheLimit) {
  for_each_model([&](const RealModel& model) {
    const auto narrow = [&](double max_loss) {
      return Session(model.graph, workers,
                     std::make_unique<FakeGpu>(std::make_shared<FakeGpuState>()),
                     {.precision = DType::f16, .max_loss = max_loss});
    };
    const double plain = loss(Session(model.graph, workers), model.cases[0]);
    const double all = loss(narrow(std::numeric_limits<double>::infinity()), model.cases[0]);
    const Session measured = narrow(0.01);
    const PrecisionReport seen = report(measured, model.cases[0]);
    const double other = loss(measured, model.cases[1]);
    print(model.name, plain, all, seen, other);
    EXPECT_LT(plain, 1e-4);
    EXPECT_LT(loss(Session(model.graph, workers), model.cases[1]), 1e-4);
    EXPECT_LT(loss(measured, model.cases[0]), 0.01);
    EXPECT_LT(other, 0.01);
  });
}

}  // namespace
}  // namespace sluice::engine

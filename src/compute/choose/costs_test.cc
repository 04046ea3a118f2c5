#include "compute/choose/costs.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "compute/choose/costs_file.h"

namespace sluice::compute {
namespace {

TEST(Costs, KnowNothingBeforeTheFirstRun) {
  EXPECT_FALSE(Costs().estimate("ema", Processor::cpu, 100));
}

TEST(Costs, InterpolateBetweenTwoSizes) {
  Costs costs;
  costs.note("ema", Processor::cpu, 1000, 1e-3);
  costs.note("ema", Processor::cpu, 3000, 2e-3);
  EXPECT_DOUBLE_EQ(costs.estimate("ema", Processor::cpu, 2000)->seconds, 1.5e-3);
  EXPECT_DOUBLE_EQ(costs.estimate("ema", Processor::cpu, 30000)->seconds, 2e-2);
  EXPECT_DOUBLE_EQ(costs.estimate("ema", Processor::cpu, 10)->seconds, 1e-3);
  EXPECT_FALSE(costs.estimate("ema", Processor::gpu, 2000));
  EXPECT_FALSE(costs.estimate("sma", Processor::cpu, 2000));
}

TEST(Costs, FollowAMachineThatBecomesSlower) {
  Costs costs;
  for (int i = 0; i < 100; ++i) costs.note("ema", Processor::cpu, 1000, 1e-3);
  for (int i = 0; i < 20; ++i) costs.note("ema", Processor::cpu, 1000, 4e-3);
  EXPECT_NEAR(costs.estimate("ema", Processor::cpu, 1000)->seconds, 4e-3, 1e-4);
}

class CostsFile : public testing::Test {
 protected:
  ~CostsFile() override { std::filesystem::remove_all(folder); }
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("costs-" + std::to_string(getpid()));
  const std::filesystem::path file = folder / "costs.json";
};

TEST_F(CostsFile, AreLoadedOnTheSameMachineOnly) {
  Costs costs;
  costs.note("ema", Processor::gpu, 1000, 1e-3);
  save_costs(file, "here", costs);
  EXPECT_DOUBLE_EQ(load_costs(file, "here").estimate("ema", Processor::gpu, 1000)->seconds, 1e-3);
  EXPECT_FALSE(load_costs(file, "elsewhere").estimate("ema", Processor::gpu, 1000));
  EXPECT_NE(machine_name("a GPU").find("a GPU, Sluice "), std::string::npos);
}

TEST_F(CostsFile, DamagedOnesAreMeasuredAgain) {
  std::filesystem::create_directories(folder);
  for (const char* text : {"", "{", "[]", R"({"machine":"here"})",
                           R"({"machine":"here","costs":{"cpu":{"ema":[[0,1,1]]}}})",
                           R"({"machine":"here","costs":{"cpu":{"ema":[[1e400,1,1]]}}})",
                           R"({"machine":"here","costs":{"cpu":{"ema":[[1,1]]}}})",
                           R"({"machine":"here","costs":3})"}) {
    std::ofstream(file) << text;
    EXPECT_FALSE(load_costs(file, "here").estimate("ema", Processor::cpu, 1)) << text;
  }
}

}  // namespace
}  // namespace sluice::compute

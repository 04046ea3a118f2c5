// Pretrained models with reference outputs of ONNX Runtime in fp32. `tools/real-models real-models`
// creates the folder, which is searched in the working directory of the test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "base/clock.h"
#include "engine/io/hf_import.h"
#include "engine/precision/emulation.h"
#include "engine/session/session.h"
#include "formats/npy/npy.h"

namespace sluice::engine {

struct RealCase {
  std::vector<Datum> inputs;
  std::vector<Tensor> outputs;
};

struct RealModel {
  std::string name;
  Graph graph;
  std::vector<RealCase> cases;
};

inline std::vector<Tensor> read_all(const std::filesystem::path& folder, const std::string& kind) {
  std::vector<Tensor> all;
  for (int i = 0; std::filesystem::exists(folder / (kind + std::to_string(i) + ".npy")); ++i)
    all.push_back(npy::read(folder / (kind + std::to_string(i) + ".npy")));
  return all;
}

inline RealModel read_real_model(const std::filesystem::path& folder) {
  RealModel model{folder.filename().string(), import_model(folder / "model.onnx"), {}};
  for (int i = 0; std::filesystem::exists(folder / std::to_string(i)); ++i) {
    RealCase made;
    for (const Tensor& input : read_all(folder / std::to_string(i), "in"))
      made.inputs.emplace_back(input);
    made.outputs = read_all(folder / std::to_string(i), "out");
    model.cases.push_back(std::move(made));
  }
  return model;
}

class RealModelsTest : public testing::Test {
 protected:
  static constexpr std::size_t kMinModels = 13;

  void SetUp() override {
    if (!std::filesystem::is_directory("real-models"))
      GTEST_SKIP() << "no folder real-models here; tools/real-models makes one";
    for (const auto& entry : std::filesystem::directory_iterator("real-models"))
      if (std::filesystem::exists(entry.path() / "model.onnx")) folders_.push_back(entry.path());
    std::sort(folders_.begin(), folders_.end());
    ASSERT_GE(folders_.size(), kMinModels) << "tools/real-models makes as many";
  }

  template <class Check>
  void for_each_model(Check&& check) {
    for (const auto& folder : folders_) {
      SCOPED_TRACE(folder.filename().string());
      check(read_real_model(folder));
    }
  }

  // The loss of a session on a case.
  static double loss(const Session& session, const RealCase& of) {
    std::vector<Tensor> made;
    for (const Datum& datum : session.run(of.inputs)) made.push_back(datum.tensor);
    return loss_of(of.outputs, made);
  }
  static PrecisionReport report(const Session& session, const RealCase& of) {
    std::vector<Tensor> inputs;
    for (const Datum& datum : of.inputs) inputs.push_back(datum.tensor);
    return session.ready(inputs).compiled.precision.value_or(PrecisionReport{});
  }
  static void print(const std::string& model, double plain, double unmeasured,
                    const PrecisionReport& report, double second) {
    std::printf(
        "%-24s fp32 %.1e  all fp16 %.1e  measured fp16 %.1e (%s), other inputs %.1e, %d narrow, "
        "%zu wide, %.2f s%s%s\n",
        model.c_str(), plain, unmeasured, report.loss.value_or(-1), report.measured.c_str(), second,
        report.narrow, report.wide.size(), report.seconds, report.refused.empty() ? "" : ", ",
        report.refused.c_str());
    for (std::size_t i = 0; i < std::min<std::size_t>(report.wide.size(), 4); ++i)
      std::printf("    %s %s\n", report.wide[i].node.c_str(), report.wide[i].why.c_str());
  }

  std::vector<std::filesystem::path> folders_;
  compute::Workers workers;
};

}  // namespace sluice::engine

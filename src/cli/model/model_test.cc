// The parts of the model commands that need no process: inputs, results, traces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/model/chrome_trace.h"
#include "cli/model/model_values.h"
#include "formats/npy/npy.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ModelValuesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_);
    for (const char* name : {"a", "b"}) {
      graph_.values.push_back({.name = name, .dtype = DType::f32});
      graph_.values.back().dims = {{-1, "n"}, {2, ""}};
      graph_.inputs.push_back(static_cast<engine::ValueId>(graph_.inputs.size()));
    }
    graph_.outputs = {1, 0};
    npy::write(folder_ / "x.npy", Tensor::of<float>(std::vector<float>{1, 2}).reshaped({1, 2}));
    npy::write(folder_ / "y.npy", Tensor::of<float>(std::vector<float>{3, 4}).reshaped({1, 2}));
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  std::string refusal(const std::vector<std::string>& given) const {
    try {
      read_inputs(graph_, given);
    } catch (const Error& error) {
      return std::string(error.reason());
    }
    return "accepted";
  }

  const fs::path folder_ =
      fs::temp_directory_path() / ("values-test-" + std::to_string(::getpid()));
  engine::Graph graph_;
};

TEST_F(ModelValuesTest, UnnamedFilesFillTheRemainingInputs) {
  const auto tensors = read_inputs(graph_, {"b=" + file("x.npy"), file("y.npy")});
  EXPECT_THAT(tensors[0].values<float>(), ElementsAre(3, 4));
  EXPECT_THAT(tensors[1].values<float>(), ElementsAre(1, 2));
}

TEST_F(ModelValuesTest, MistakesAreReportedWithTheInputsOfTheModel) {
  const std::string x = file("x.npy");
  EXPECT_THAT(refusal({x}), HasSubstr("'b' is not given; the model takes\n  a  f32[n, 2]\n"));
  EXPECT_THAT(refusal({x, x, x}), HasSubstr("one too many"));
  EXPECT_THAT(refusal({"a=" + x, "a=" + x}), HasSubstr("'a' is given twice"));
  EXPECT_THAT(refusal({"c=" + x}), HasSubstr("no input is called 'c'"));
}

TEST_F(ModelValuesTest, ResultsGoIntoAFolderOrAFileByName) {
  graph_.values[0].name = "../escape";
  const std::vector<Tensor> results{Tensor::of<float>(5), Tensor::of<float>(6)};
  const auto files = write_outputs(graph_, results, {"b=" + file("one.npy"), file("out")});
  EXPECT_THAT(files, ElementsAre(file("one.npy"), file("out/output.._escape.npy")));
  EXPECT_EQ(npy::read(files[0]).values<float>()[0], 5);
  EXPECT_EQ(npy::read(files[1]).values<float>()[0], 6);
  EXPECT_THROW(write_outputs(graph_, results, {"c=x.npy"}), Error);
}

TEST_F(ModelValuesTest, OutputsWhoseFilesWouldHaveOneNameAreRefused) {
  graph_.values[0].name = "x/y";
  graph_.values[1].name = "x\\y";
  const std::vector<Tensor> results{Tensor::of<float>(5), Tensor::of<float>(6)};
  EXPECT_THROW(write_outputs(graph_, results, {file("out")}), Error);
  EXPECT_FALSE(fs::exists(file("out")));
  EXPECT_EQ(write_outputs(graph_, results, {"x/y=" + file("x.npy"), file("out")}).size(), 2u);
}

TEST(SummaryTest, NaNsAreCountedAndLeftOut) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Summary s = summarize(Tensor::of<float>(std::vector<float>{1, nan, 3}));
  EXPECT_EQ(s.min, 1);
  EXPECT_EQ(s.max, 3);
  EXPECT_EQ(s.mean, 2);
  EXPECT_EQ(s.not_numbers, 1u);
}

TEST(ChromeTraceTest, StepsAreTraceEventsWithTheirKernel) {
  engine::Node node;
  node.name = "encoder/query";
  node.op = "Linear";
  const std::vector<engine::StepTime> steps{{&node, "own kernel", 1.5, 20}};
  const auto trace = nlohmann::json::parse(chrome_trace("m.onnx", "CPU, 2 threads", steps));
  const auto& events = trace.at("traceEvents");
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[1].at("args").at("name"), "CPU, 2 threads");
  EXPECT_EQ(events[2].at("name"), "encoder/query");
  EXPECT_EQ(events[2].at("dur"), 20);
  EXPECT_EQ(events[2].at("args").at("kernel"), "own kernel");
}

TEST(ChromeTraceTest, StreamsAndCopiesHaveSeparateTracks) {
  using Track = engine::StepTime::Track;
  engine::Node node;
  node.op = "Resize";
  const std::vector<engine::StepTime> steps{
      {nullptr, "H2D copy of the inputs", 0, 1, Track::copies},
      {&node, "own kernel", 1, 2, Track::stream},
      {&node, "operator", 3, 2, Track::cpu}};
  const auto trace = nlohmann::json::parse(chrome_trace("m.onnx", "CPU", steps));
  std::map<int, std::string> tracks;
  std::map<std::string, int> ran_on;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("name") == "thread_name") tracks[event.at("tid")] = event.at("args").at("name");
    if (event.at("ph") == "X") ran_on[event.at("args").at("kernel")] = event.at("tid");
  }
  EXPECT_EQ(tracks[ran_on["H2D copy of the inputs"]], "CUDA copies");
  EXPECT_EQ(tracks[ran_on["own kernel"]], "CUDA stream");
  EXPECT_EQ(tracks[ran_on["operator"]], "CPU");
  EXPECT_EQ(tracks.size(), 3u);
}

}  // namespace
}  // namespace sluice::cli

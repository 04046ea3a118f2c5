#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "cli/common/commands.h"
#include "cli/memory/memory_report.h"
#include "memory/trace/trace_record.h"

namespace sluice::cli {
namespace {

using testing::HasSubstr;

namespace fs = std::filesystem;

struct Memory : testing::Test {
  std::istringstream in;
  std::ostringstream out, err;
  Io io{in, out, err};
  fs::path folder = fs::path(testing::TempDir()) / ("sluice-memory-" + std::to_string(getpid()));

  void SetUp() override { fs::create_directories(folder); }
  void TearDown() override { fs::remove_all(folder); }

  int call(std::vector<std::string> args) {
    const std::vector<std::string_view> views(args.begin(), args.end());
    return memory(views, io);
  }
  std::string problem_of(const std::vector<std::string>& args) {
    try {
      call(args);
    } catch (const Error& e) {
      return e.what();
    }
    return "none";
  }
  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(folder / name, std::ios::binary) << text;
    return (folder / name).string();
  }
  // Two blocks, of which one stays; PyTorch held 2 MiB for them.
  std::string snapshot(int reserved = 2 << 20) {
    return file("mine.json", R"({"segments": [{"device": 0, "total_size": )" +
                                 std::to_string(reserved) + R"(}], "device_traces": [[
      {"action": "free_completed", "addr": 7, "size": 9, "stream": 0, "time_us": 90},
      {"action": "segment_alloc", "addr": 4096, "size": 2097152, "stream": 0, "time_us": 100},
      {"action": "alloc", "addr": 4096, "size": 1000000, "stream": 0, "time_us": 100},
      {"action": "alloc", "addr": 2000000, "size": 50000, "stream": 0, "time_us": 200},
      {"action": "free_completed", "addr": 4096, "size": 1000000, "stream": 0, "time_us": 300}]]})");
  }
};

TEST_F(Memory, WithoutArgumentsTheActionsAreListed) {
  EXPECT_EQ(call({}), 0);
  EXPECT_THAT(out.str(), HasSubstr("record"));
  EXPECT_THAT(problem_of({"replai"}), HasSubstr("did you mean 'replay'"));
}

TEST_F(Memory, EveryActionHasHelpWithExamples) {
  for (const auto* action : {"record", "replay", "report"}) {
    out.str("");
    EXPECT_EQ(call({action, "--help"}), 0);
    EXPECT_THAT(out.str(), HasSubstr("Examples:\n"));
  }
}

TEST_F(Memory, RecordWritesATraceAndReportsWhatItLeftOut) {
  const auto trace = (folder / "x.trace").string();
  EXPECT_EQ(call({"record", snapshot(), "-o", trace}), 0);
  EXPECT_THAT(out.str(),
              HasSubstr("2 allocations, 1 frees, 1.0 MiB live at the peak, 1 blocks left"));
  EXPECT_THAT(out.str(), HasSubstr("1 frees of blocks from before the recording were left out"));
  const auto read = memory::decode(memory::read_file(trace));
  EXPECT_EQ(read.header.name, "x");
  EXPECT_EQ(read.header.source, "PyTorch memory snapshot mine.json");
}

TEST_F(Memory, RecordOverwritesOnlyWithForce) {
  const auto trace = file("x.trace", "precious");
  EXPECT_THAT(problem_of({"record", snapshot(), "-o", trace}), HasSubstr("--force"));
  EXPECT_EQ(call({"record", snapshot(), "-o", trace, "--force"}), 0);
}

TEST_F(Memory, RecordReportsWhyAFileIsInvalid) {
  const auto trace = (folder / "x.trace").string();
  const auto why = [&](const std::string& path, const std::string& device = "0") {
    return problem_of({"record", path, "-o", trace, "--device", device});
  };
  EXPECT_THAT(why(folder / "none"), HasSubstr("cannot read"));
  EXPECT_THAT(why(folder), HasSubstr("is a folder"));
  EXPECT_THAT(why(file("e", "")), HasSubstr("is empty"));
  EXPECT_THAT(why(file("z", "\x1f\x8b...")), HasSubstr("gunzip it first"));
  EXPECT_THAT(why(file("p", "\x80\x04\x8c\x02os\x93.")), HasSubstr("STACK_GLOBAL"));
  EXPECT_THAT(why(snapshot(), "4"), HasSubstr("choose --device 0"));
  EXPECT_FALSE(fs::exists(trace));
}

TEST_F(Memory, ReplayComparesStrategiesAndPyTorchAndRecommendsOne) {
  EXPECT_EQ(call({"replay", snapshot(), "--passes", "1"}), 0);
  const auto text = out.str();
  for (const auto* name : {"first_fit", "best_fit", "buddy", "slab", "PyTorch"})
    EXPECT_THAT(text, HasSubstr(std::string("\n  ") + name));
  EXPECT_THAT(text, HasSubstr("Recommended: "));
  EXPECT_THAT(text, HasSubstr("needs"));
}

TEST_F(Memory, ReplayJsonHasEveryStatistic) {
  EXPECT_EQ(call({"replay", snapshot(), "--strategy", "buddy", "--passes", "1", "--json"}), 0);
  const auto json = Json::parse(out.str());
  EXPECT_EQ(json["schema"], "sluice/memory-replay/1");
  const auto& trace = json["traces"][0];
  EXPECT_EQ(trace["peak_live_bytes"], 1050000);
  EXPECT_EQ(trace["unknown_frees"], 1);
  EXPECT_EQ(trace["peer"]["peak_reserved_bytes"], 2 << 20);
  EXPECT_NEAR(trace["peer"]["efficiency"].get<double>(), 1050000.0 / (2 << 20), 1e-6);
  ASSERT_EQ(trace["strategies"].size(), 1u);
  const auto& buddy = trace["strategies"][0];
  EXPECT_EQ(buddy["strategy"], "buddy");
  EXPECT_EQ(buddy["peak_taken_bytes"], (1 << 20) + (64 << 10));
  EXPECT_EQ(buddy["peak_committed_bytes"], 2 << 20);
  EXPECT_EQ(buddy["failures"], 0);
  EXPECT_EQ(buddy["left_to_grow"]["peak_committed_bytes"], 16 << 20);
  for (const auto* key : {"allocate_ns", "free_ns"}) EXPECT_TRUE(buddy[key].contains("p99"));
  EXPECT_EQ(trace["recommended"]["strategy"], "buddy");
}

TEST_F(Memory, APeerThatStartedWithMemoryIsNotCompared) {
  EXPECT_EQ(call({"replay", snapshot(20 << 20), "--passes", "1"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("18.0 MiB of it from before the recording:"));
}

TEST_F(Memory, ReplayInTooLittleMemoryCountsRefusals) {
  EXPECT_EQ(call({"replay", "training", "--arena", "2", "--strategy", "slab", "--passes", "1"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("In 2.0 GiB of memory"));
  EXPECT_THAT(out.str(), HasSubstr(" refused"));
  EXPECT_THAT(out.str(), testing::Not(HasSubstr("Left to grow")));
}

TEST_F(Memory, AMistypedTraceOrStrategyNamesTheNearest) {
  EXPECT_THAT(problem_of({"replay", "trainng"}), HasSubstr("did you mean 'training'"));
  EXPECT_THAT(problem_of({"replay", "training", "--strategy", "best-fit"}),
              HasSubstr("did you mean 'best_fit'"));
  EXPECT_THAT(problem_of({"replay", file("t", "text")}), HasSubstr("not a trace"));
  EXPECT_THAT(problem_of({"report", "/dev/zero"}), HasSubstr("no regular file"));
}

TEST_F(Memory, ReportShowsSizesLifetimesAndWhatIsLeft) {
  EXPECT_EQ(call({"report", snapshot()}), 0);
  EXPECT_THAT(out.str(), HasSubstr("up to 64.0 KiB"));
  EXPECT_THAT(out.str(), HasSubstr("Live at the end: 1 blocks with 48.8 KiB"));
  EXPECT_THAT(out.str(), HasSubstr("##"));
}

TEST_F(Memory, ReportWithoutATraceListsTheShippedOnes) {
  EXPECT_EQ(call({"report"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("training"));
  out.str("");
  EXPECT_EQ(call({"report", "--json"}), 0);
  const auto json = Json::parse(out.str());
  EXPECT_EQ(json["traces"].size(), 2u);
  EXPECT_EQ(json["traces"][0]["name"], "inference");
  EXPECT_EQ(json["traces"][0]["over_time"].size(), 64u);
}

TEST(MemoryReport, NumbersAreGrouped) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1234567), "1,234,567");
}

TEST(MemoryReport, AChartHasItsHighestRowFirst) {
  const auto rows = area_chart({0, 0.5, 1}, 2, {.colour = false, .utf8 = true});
  EXPECT_EQ(rows, (std::vector<std::string>{"  █", " ██"}));
}

}  // namespace
}  // namespace sluice::cli

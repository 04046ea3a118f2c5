#include "memory/trace/trace.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "memory/trace/trace_record.h"
#include "memory/trace/trace_summary.h"

namespace sluice::memory {
namespace {

using testing::HasSubstr;

Trace small() {
  TraceBuilder builder;
  builder.allocated(0, 0x1000, 1000);
  builder.allocated(5, 0x2000, 46881792);
  builder.freed(100, 0x1000);
  builder.allocated(100, 0x1000, 0);
  builder.freed(1'000'000, 0x2000);
  builder.freed(1'000'001, 0x7777);
  TraceHeader header;
  header.name = "small";
  header.source = "a test";
  header.device = 2;
  header.peer = TracePeer{"PyTorch", 1 << 20, 512};
  return std::move(builder).finish(std::move(header));
}

std::string problem_of_trace(std::string_view bytes) {
  try {
    decode(bytes);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::invalid_argument);
    return e.what();
  }
  return "none";
}

TEST(Trace, RoundTripsExactly) {
  const auto before = small();
  const auto after = decode(encode(before));
  EXPECT_EQ(after.header.name, "small");
  EXPECT_EQ(after.header.source, "a test");
  EXPECT_EQ(after.header.device, 2);
  EXPECT_EQ(after.header.unknown_frees, 1u);
  EXPECT_EQ(after.header.live_at_end, 1u);
  EXPECT_EQ(after.header.bytes_at_end, 0u);
  EXPECT_EQ(after.header.peak_live_bytes, 46882792u);
  EXPECT_EQ(after.header.peer->peak_reserved, 1u << 20);
  ASSERT_EQ(after.events.size(), before.events.size());
  for (std::size_t i = 0; i < after.events.size(); ++i) {
    EXPECT_EQ(after.events[i].time_us, before.events[i].time_us);
    EXPECT_EQ(after.events[i].bytes, before.events[i].bytes);
    EXPECT_EQ(after.events[i].block, before.events[i].block);
    EXPECT_EQ(after.events[i].free, before.events[i].free);
  }
}

TEST(Trace, ItsFirstTwoLinesAreText) {
  EXPECT_THAT(encode(small()),
              HasSubstr("sluice trace 1\n{\"name\":\"small\",\"source\":\"a test\""));
}

TEST(Trace, TerminalControlSequencesAreEscaped) {
  auto trace = small();
  trace.header.name = "\x1b[31mred", trace.header.source = "a\nb\x07";
  const auto read = decode(encode(trace));
  EXPECT_EQ(read.header.name, "\\x1b[31mred");
  EXPECT_EQ(read.header.source, "a\\x0ab\\x07");
  EXPECT_THAT(problem_of_trace("sluice trace \x1b[2J\n"), HasSubstr("version \\x1b[2J"));
}

TEST(Trace, AnyChangedOrMissingByteIsDetected) {
  const auto whole = encode(small());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    auto damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    EXPECT_NE(problem_of_trace(damaged), "none") << i;
    EXPECT_NE(problem_of_trace(whole.substr(0, i)), "none") << i;
  }
}

TEST(Trace, ANewerVersionIsRefusedWithTheReason) {
  auto bytes = encode(small());
  bytes[13] = '2';
  EXPECT_THAT(problem_of_trace(bytes), HasSubstr("version 2 of the format; this program reads 1"));
  EXPECT_THAT(problem_of_trace("hello"), HasSubstr("not a trace"));
}

TEST(Trace, ImpossibleEventsAreRefusedEvenWithAValidChecksum) {
  auto twice = small();
  twice.events.push_back(twice.events[2]);
  ++twice.header.frees;
  twice.events.back().time_us = twice.events[4].time_us;
  EXPECT_THAT(problem_of_trace(encode(twice)), HasSubstr("frees a block twice"));
  auto miscounted = small();
  ++miscounted.header.allocations;
  EXPECT_THAT(problem_of_trace(encode(miscounted)), HasSubstr("counts other events"));
  auto never = small();
  never.events[2].block = 9;
  EXPECT_NE(problem_of_trace(encode(never)), "none");
}

TEST(TraceBuilder, AnAddressHandedOutTwiceWasFreedInBetween) {
  TraceBuilder builder;
  builder.allocated(0, 0x1000, 10);
  builder.allocated(1, 0x1000, 20);
  const auto trace = std::move(builder).finish({});
  ASSERT_EQ(trace.events.size(), 3u);
  EXPECT_TRUE(trace.events[1].free);
  EXPECT_EQ(trace.header.live_at_end, 1u);
  EXPECT_EQ(trace.header.peak_live_bytes, 20u);
}

TEST(TraceBuilder, TimeNeverGoesBack) {
  TraceBuilder builder;
  builder.allocated(10, 0x1000, 10);
  builder.freed(5, 0x1000);
  EXPECT_EQ(std::move(builder).finish({}).events[1].time_us, 10u);
}

class Malloc final : public Allocator {
 public:
  void* allocate(std::size_t bytes) override {
    if (bytes > 1 << 30) throw Error(Code::exhausted, "out of memory");
    return std::aligned_alloc(kAlignment, round_up(bytes + 1, kAlignment));
  }
  void deallocate(void* pointer, std::size_t) noexcept override { std::free(pointer); }
};

TEST(RecordingAllocator, RecordsAllocationsAndFrees) {
  Malloc host;
  RecordingAllocator recording(host);
  { const Buffer a(recording, 100), b(recording, 2000); }
  auto* const left = recording.allocate(5);
  EXPECT_THROW(std::ignore = recording.allocate(std::size_t{2} << 30), Error);
  TraceHeader header;
  header.name = "mine";
  const auto trace = recording.finish(std::move(header));
  EXPECT_EQ(trace.header.allocations, 3u);
  EXPECT_EQ(trace.header.frees, 2u);
  EXPECT_EQ(trace.header.bytes_at_end, 5u);
  EXPECT_EQ(trace.header.peak_live_bytes, 2100u);
  recording.deallocate(left, 5);
  EXPECT_EQ(recording.finish({}).header.unknown_frees, 1u);
}

TEST(RecordingAllocator, PastItsLimitItForwardsAndReportsTheTruncation) {
  Malloc host;
  RecordingAllocator recording(host, 3);
  for (int i = 0; i < 4; ++i) const Buffer b(recording, 100);
  EXPECT_TRUE(recording.truncated());
  EXPECT_EQ(recording.finish({}).events.size(), 3u);
}

TEST(RecordingAllocator, ThreadsNeverSeeABlockFreedThatAnotherHas) {
  Malloc host;
  RecordingAllocator recording(host);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&recording] {
      for (int i = 0; i < 2000; ++i) const Buffer b(recording, 64);
    });
  for (auto& thread : threads) thread.join();
  const auto trace = recording.finish({});
  EXPECT_EQ(trace.header.allocations, 8000u);
  EXPECT_EQ(trace.header.frees, 8000u);
  EXPECT_EQ(trace.header.unknown_frees, 0u);
  EXPECT_EQ(decode(encode(trace)).header.live_at_end, 0u);
}

struct TraceFolder : testing::Test {
  std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("sluice-trace-" + std::to_string(getpid()));
  void SetUp() override { std::filesystem::create_directories(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }
};

TEST_F(TraceFolder, AFileIsWrittenCompletelyAndNothingElseIsLeft) {
  const auto path = folder / "x.trace";
  save_trace(path, small());
  EXPECT_EQ(decode(read_file(path)).header.name, "small");
  const std::filesystem::directory_iterator files(folder);
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
  EXPECT_THROW(save_trace(path / "in a file", small()), Error);
}

TEST_F(TraceFolder, AMissingFileAndAFolderAreRefusedWithTheReason) {
  try {
    read_file(folder / "none");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::not_found);
    EXPECT_THAT(e.what(), HasSubstr("none"));
  }
  EXPECT_THROW(read_file(folder), Error);
}

TEST(ShippedTraces, AreSmallAndComplete) {
  std::size_t together = 0;
  std::vector<std::string> names;
  for (const auto& file : shipped_traces()) {
    const auto trace = decode(file.bytes());
    EXPECT_EQ(trace.header.name, file.name);
    EXPECT_FALSE(trace.header.source.empty());
    EXPECT_TRUE(trace.header.peer.has_value());
    EXPECT_GT(trace.events.size(), 10'000u);
    names.emplace_back(file.name);
    together += file.bytes().size();
  }
  EXPECT_THAT(names, testing::ElementsAre("inference", "training"));
  EXPECT_LT(together, 400u << 10);
}

TEST(TraceSummary, SummarizesSizesLifetimesAndLeaks) {
  const auto summary = summarize(small(), 4);
  EXPECT_EQ(summary.duration_us, 1'000'000u);
  EXPECT_EQ(summary.peak_time_us, 5u);
  EXPECT_EQ(summary.peak_blocks, 2u);
  EXPECT_EQ(summary.sizes.front().count, 1u);  // of no bytes
  EXPECT_EQ(summary.sizes.back().up_to, 64u << 20);
  EXPECT_EQ(summary.largest.front().bytes, 46881792u);
  EXPECT_EQ(summary.median_lifetime_us, 999'995u);
  ASSERT_EQ(summary.lifetimes.size(), 6u);
  EXPECT_EQ(summary.lifetimes[1].count, 1u);  // 100 us
  EXPECT_EQ(summary.lifetimes[5].count, 1u);  // 0.999995 s
  ASSERT_EQ(summary.live_at_end.size(), 1u);
  EXPECT_EQ(summary.live_at_end[0].bytes, 0u);
  ASSERT_EQ(summary.over_time.size(), 4u);
  EXPECT_EQ(summary.over_time[0].live_bytes, 46882792u);
  EXPECT_EQ(summary.over_time[2].live_bytes, 46881792u);  // no event there
}

}  // namespace
}  // namespace sluice::memory

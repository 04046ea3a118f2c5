#include "memory/trace/torch_snapshot.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace sluice::memory {
namespace {

using testing::HasSubstr;

std::string event(const std::string& action, int address, int size, int time) {
  return R"({"action": ")" + action + R"(", "addr": )" + std::to_string(address) + R"(, "size": )" +
         std::to_string(size) + R"(, "stream": 0, "time_us": )" + std::to_string(time) + "}";
}

std::string snapshot(const std::vector<std::string>& events, int reserved_at_end = 0) {
  std::string text = R"({"segments": [)";
  if (reserved_at_end > 0)
    text += R"({"device": 0, "total_size": )" + std::to_string(reserved_at_end) +
            R"(}, {"device": 1, "total_size": 999})";
  text += R"(], "device_traces": [[)";
  for (std::size_t i = 0; i < events.size(); ++i) text += (i > 0 ? "," : "") + events[i];
  return text + "]]}";
}

Trace read(const std::string& text, int device = 0) {
  return read_torch_snapshot(text, {device, "test", "a test"});
}

std::string problem_of(const std::string& text, int device = 0) {
  try {
    read(text, device);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::invalid_argument);
    return e.what();
  }
  return "none";
}

TEST(TorchSnapshot, ABlockIsFreeWhenPyTorchCanUseItAgain) {
  const auto trace = read(
      snapshot({event("alloc", 0x1000, 300, 1000), event("free_requested", 0x1000, 300, 1010),
                event("alloc", 0x2000, 50, 1020), event("free_completed", 0x1000, 300, 1030)}));
  ASSERT_EQ(trace.events.size(), 3u);
  EXPECT_EQ(trace.events[0].time_us, 0u);
  EXPECT_EQ(trace.events[2].time_us, 30u);
  EXPECT_TRUE(trace.events[2].free);
  EXPECT_EQ(trace.events[2].block, 0u);
  EXPECT_EQ(trace.events[2].bytes, 300u);
  EXPECT_EQ(trace.header.peak_live_bytes, 350u);
}

TEST(TorchSnapshot, FreesFromBeforeTheStartAndBlocksLeftAreCounted) {
  const auto trace =
      read(snapshot({event("free_completed", 0x9000, 64, 1), event("alloc", 0x1000, 300, 2),
                     event("alloc", 0x2000, 7, 3), event("free_completed", 0x1000, 300, 4)}));
  EXPECT_EQ(trace.header.unknown_frees, 1u);
  EXPECT_EQ(trace.header.live_at_end, 1u);
  EXPECT_EQ(trace.header.bytes_at_end, 7u);
  EXPECT_EQ(trace.header.streams, 1u);
}

TEST(TorchSnapshot, ReservedMemoryIsReconstructedFromTheEnd) {
  // 100 before, +400, -300, +50: at most 500.
  const auto trace =
      read(snapshot({event("segment_alloc", 0x1000, 400, 1), event("alloc", 0x1000, 300, 1),
                     event("free_completed", 0x1000, 300, 2), event("segment_free", 0x1000, 300, 3),
                     event("segment_alloc", 0x5000, 50, 4)},
                    250));
  ASSERT_TRUE(trace.header.peer.has_value());
  EXPECT_EQ(trace.header.peer->peak_reserved, 500u);
  EXPECT_EQ(trace.header.peer->reserved_before, 100u);
}

TEST(TorchSnapshot, SegmentsThatContradictTheEventsGiveNoPeer) {
  const auto trace =
      read(snapshot({event("segment_alloc", 0x1000, 400, 1), event("alloc", 0x1000, 300, 1)}, 250));
  EXPECT_FALSE(trace.header.peer.has_value());
}

TEST(TorchSnapshot, EventsThatAllocateNothingMayLackAnAddress) {
  const auto trace = read(snapshot(
      {event("alloc", 0x1000, 300, 1), R"({"action": "oom", "device_free": 5, "size": 3})"}));
  EXPECT_EQ(trace.events.size(), 1u);
}

TEST(TorchSnapshot, ADeviceWithoutHistoryNamesThoseThatHaveOne) {
  EXPECT_THAT(problem_of(snapshot({event("alloc", 0x1000, 300, 1)}), 3),
              HasSubstr("no history of device 3; choose --device 0"));
}

TEST(TorchSnapshot, AFileWithoutHistorySaysHowToRecordOne) {
  EXPECT_THAT(problem_of(snapshot({})), HasSubstr("_record_memory_history()"));
  EXPECT_THAT(problem_of(R"({"segments": []})"), HasSubstr("_record_memory_history()"));
  EXPECT_THAT(problem_of("PK\x03\x04"), HasSubstr("neither a pickle nor JSON"));
  EXPECT_THAT(problem_of(snapshot({event("snapshot", 0, 0, 1)})), HasSubstr("allocate nothing"));
}

TEST(TorchSnapshot, AnEventWithoutItsNumbersIsNamed) {
  EXPECT_THAT(
      problem_of(snapshot({event("alloc", 1, 1, 1), R"({"action": "alloc", "addr": "x"})"})),
      HasSubstr("event 1 has no integer under 'addr'"));
  EXPECT_THAT(problem_of(snapshot({event("alloc", 1, -1, 1)})),
              HasSubstr("larger than any memory"));
}

TEST(TorchSnapshot, JsonGivesTheSameAsAPickle) {
  // pickle.dumps({'segments': [], 'device_traces': [[{'action': 'alloc', 'addr': 4096,
  //   'size': 300, 'stream': 0, 'time_us': 7}]]}, protocol=4)
  const std::string bytes(
      "\x80\x04\x95\x68\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x08segments\x94]\x94\x8c\x0d"
      "device_traces\x94]\x94]\x94}\x94(\x8c\x06"
      "action\x94\x8c\x05"
      "alloc\x94\x8c\x04"
      "addr\x94M\x00\x10\x8c\x04size\x94M\x2c\x01\x8c\x06stream\x94K\x00\x8c\x07time_us\x94K\x07"
      "uaau.",
      115);
  const auto trace = read(bytes);
  ASSERT_EQ(trace.events.size(), 1u);
  EXPECT_EQ(trace.events[0].bytes, 300u);
}

}  // namespace
}  // namespace sluice::memory

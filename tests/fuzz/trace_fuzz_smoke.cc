// A short, repeatable run of trace_fuzz.cc: a pickle, the same as JSON, and a trace,
// each with bytes changed, cut out and doubled.
#include "memory/trace/trace.h"
#include "smoke.h"

namespace {

// {'segments': [], 'device_traces': [[{'action': 'alloc', ...}, {'action': 'free_completed',
// ...}]]}
std::string pickle() {
  const std::string fields =
      "\x8c\x04"
      "addrM\x01\x10\x8c\x04sizeM\x2c\x01\x8c\x06streamK\x01\x8c\x07time_usK\x07u";
  return "\x80\x04}\x94(\x8c\x08segments]\x94\x8c\x0d"
         "device_traces]]("
         "}\x94(\x8c\x06"
         "action\x94\x8c\x05"
         "alloc" +
         fields + "}(\x8c\x06" + "action\x8c\x0e" + "free_completed" + fields + "eau.";
}

constexpr const char* kJson =
    R"({"segments": [{"device": 0, "total_size": 2097152}], "device_traces": [[
  {"action": "segment_alloc", "addr": 4096, "size": 2097152, "time_us": 1},
  {"action": "alloc", "addr": 4096, "size": 300, "stream": 0, "time_us": 5},
  {"action": "free_completed", "addr": 4096, "size": 300, "stream": 0, "time_us": 9}]]})";

std::string trace() {
  sluice::memory::TraceBuilder builder;
  for (std::uint64_t i = 0; i < 40; ++i) {
    builder.allocated(i * 3, i, i * i * 1000);
    if (i % 3 == 0) builder.freed(i * 3 + 1, i / 2);
  }
  sluice::memory::TraceHeader header;
  header.name = "seed";
  return encode(std::move(builder).finish(std::move(header)));
}

}  // namespace

int main() {
  return sluice::fuzz::run(
      "trace_fuzz_smoke", std::vector<std::string>{pickle(), kJson, trace()},
      {.variants = 20'000,
       .alphabet = "(.0123NJKMXa]}ehjqrstu)\x80\x85\x88\x8a\x8c\x94\x95\x93R\xff\x7f",
       .runs = 1});
}

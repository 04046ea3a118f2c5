// Any bytes as a pickle, as a snapshot of PyTorch, as JSON and as a trace (with its
// checksum recomputed, so that the code behind it is reached): an answer, or an Error that
// says something. Built for libFuzzer with clang, and for the smoke test beside it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "memory/trace/pickle.h"
#include "memory/trace/torch_snapshot.h"
#include "memory/trace/trace.h"
#include "memory/trace/trace_summary.h"

namespace {

using namespace sluice;

template <class Read>
void try_reading(Read read) {
  try {
    read();
  } catch (const Error& e) {
    if (e.code() != Code::invalid_argument || e.reason().size() < 10) std::abort();
  }
}

// A trace that was read is one that can be written: the same bytes come out again.
void round_trip(std::string_view bytes) {
  const auto trace = memory::decode(bytes);
  const auto again = memory::encode(trace);
  if (memory::encode(memory::decode(again)) != again) std::abort();
  std::uint64_t live = 0;
  for (const auto& event : trace.events) live += event.free ? -event.bytes : event.bytes;
  if (live != trace.header.bytes_at_end) std::abort();
  if (memory::summarize(trace, 8).over_time.size() != 8) std::abort();
}

std::string with_valid_checksum(std::string_view bytes) {
  std::string text(bytes.substr(0, bytes.size() - (bytes.size() < 4 ? 0 : 4)));
  const auto sum = memory::trace_checksum(text);
  for (int shift = 0; shift < 32; shift += 8) text += static_cast<char>(sum >> shift & 0xff);
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  memory::PlainLimits limits;
  limits.values = 1'000'000;
  try_reading([&] { memory::read_pickle(bytes, limits); });
  try_reading([&] { memory::read_json(bytes, limits); });
  try_reading([&] { memory::read_torch_snapshot(bytes, {0, "fuzz", "fuzz"}); });
  try_reading([&] { round_trip(bytes); });
  try_reading([&] { round_trip(with_valid_checksum(bytes)); });
  return 0;
}

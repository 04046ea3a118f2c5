#include "memory/trace/torch_snapshot.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "memory/trace/pickle.h"

namespace sluice::memory {

namespace {

using Kind = PlainData::Kind;
using Value = PlainData::Value;

constexpr std::string_view kHowToRecord =
    "record one with torch.cuda.memory._record_memory_history() before the work and "
    "torch.cuda.memory._dump_snapshot(FILE) after it";

[[noreturn]] void refuse_snapshot(const std::string& why) {
  throw Error(Code::invalid_argument, "snapshot: " + why);
}

bool is_json(std::string_view bytes) noexcept {
  const auto first = bytes.find_first_not_of(" \t\r\n");
  return first != bytes.npos && bytes[first] == '{';
}

bool is_free(std::string_view action) { return action == "free_completed" || action == "free"; }

int reserves(std::string_view action) {
  if (action == "segment_alloc" || action == "segment_map") return 1;
  if (action == "segment_free" || action == "segment_unmap") return -1;
  return 0;
}

// Others (a snapshot was taken, memory ran out) have other fields.
bool counts(std::string_view action) {
  return action == "alloc" || is_free(action) || reserves(action) != 0;
}

// The few fields of an event that matter.
struct Event {
  std::string_view action;
  std::uint64_t address = 0, bytes = 0, time_us = 0;
  std::int64_t stream = 0;
};

class Snapshot {
 public:
  explicit Snapshot(const PlainData& data) : data_(data) {}

  Value history(int device) const {
    const auto traces = data_.find(data_.root(), "device_traces");
    if (!traces) refuse_snapshot("there is no 'device_traces' in it; " + std::string(kHowToRecord));
    const auto& devices = data_.items(*traces);
    const auto index = static_cast<std::size_t>(device);
    if (index < devices.size() && !data_.items(devices[index]).empty()) return devices[index];
    std::string others;
    for (std::size_t i = 0; i < devices.size(); ++i)
      if (!data_.items(devices[i]).empty())
        others += (others.empty() ? "" : ", ") + std::to_string(i);
    if (others.empty())
      refuse_snapshot("it has no history of any device; " + std::string(kHowToRecord));
    refuse_snapshot(
        fmt::format("it has no history of device {}; choose --device {}", device, others));
  }

  Event event(Value entry, std::size_t number) const {
    Event event;
    if (const auto action = data_.find(entry, "action")) event.action = data_.text(*action);
    if (event.action.empty()) refuse_snapshot(fmt::format("event {} has no action", number));
    if (!counts(event.action)) return event;
    event.address = unsigned_at(entry, "addr", number);
    event.bytes = unsigned_at(entry, "size", number);
    if (const auto time = data_.find(entry, "time_us"); time && time->kind == Kind::integer)
      event.time_us = static_cast<std::uint64_t>(std::max<std::int64_t>(time->integer, 0));
    if (const auto stream = data_.find(entry, "stream"); stream && stream->kind == Kind::integer)
      event.stream = stream->integer;
    return event;
  }

  // Bytes in all segments of a device when the snapshot was taken; nothing without the list.
  std::optional<std::uint64_t> reserved_at_end(int device) const {
    const auto segments = data_.find(data_.root(), "segments");
    if (!segments) return std::nullopt;
    std::uint64_t sum = 0;
    for (const auto& segment : data_.items(*segments)) {
      const auto on = data_.find(segment, "device");
      if (on && on->kind == Kind::integer && on->integer != device) continue;
      const auto size = data_.find(segment, "total_size");
      if (!size || size->kind != Kind::integer || size->integer < 0 ||
          static_cast<std::uint64_t>(size->integer) > TraceBuilder::kMaxBytes)
        return std::nullopt;
      sum += static_cast<std::uint64_t>(size->integer);
    }
    return sum;
  }

 private:
  std::uint64_t unsigned_at(Value entry, std::string_view key, std::size_t number) const {
    if (const auto found = data_.find(entry, key); found && found->kind == Kind::integer)
      return static_cast<std::uint64_t>(found->integer);
    refuse_snapshot(fmt::format("event {} has no integer under '{}'", number, key));
  }

  const PlainData& data_;
};

// PyTorch's reserved memory over time, walked back from the end, where it is known.
class Reserved {
 public:
  void add(const Event& event) {
    const int sign = reserves(event.action);
    if (sign != 0 && event.bytes <= TraceBuilder::kMaxBytes)
      changes_.push_back(sign * static_cast<std::int64_t>(event.bytes));
  }

  // Returns nothing when events and segments contradict each other.
  std::optional<TracePeer> peer(std::uint64_t at_end) const {
    auto now = static_cast<std::int64_t>(at_end), peak = now;
    for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) {
      now -= *change;
      if (now < 0) return std::nullopt;
      peak = std::max(peak, now);
    }
    return TracePeer{"PyTorch", static_cast<std::uint64_t>(peak), static_cast<std::uint64_t>(now)};
  }

 private:
  std::vector<std::int64_t> changes_;
};

}  // namespace

bool is_torch_snapshot(std::string_view bytes) noexcept {
  return bytes.starts_with("\x80") || is_json(bytes);
}

Trace read_torch_snapshot(std::string_view bytes, const TorchOptions& options) {
  if (!is_torch_snapshot(bytes))
    refuse_snapshot("this is neither a pickle nor JSON; " + std::string(kHowToRecord));
  require(options.device >= 0, "a device has a number from 0 on");
  const auto data = is_json(bytes) ? read_json(bytes) : read_pickle(bytes);
  const Snapshot snapshot(data);

  TraceBuilder builder;
  Reserved reserved;
  std::set<std::int64_t> streams;
  std::optional<std::uint64_t> start;
  std::size_t number = 0;
  for (const auto& entry : data.items(snapshot.history(options.device))) {
    const auto event = snapshot.event(entry, number++);
    if (!counts(event.action)) continue;
    if (!start) start = event.time_us;
    const auto time = event.time_us - std::min(*start, event.time_us);
    reserved.add(event);
    if (event.action == "alloc") {
      builder.allocated(time, event.address, event.bytes);
      streams.insert(event.stream);
    } else if (is_free(event.action)) {
      builder.freed(time, event.address);
    }
  }

  TraceHeader header;
  header.name = options.name;
  header.source = options.source;
  header.device = options.device;
  header.streams = streams.size();
  if (const auto at_end = snapshot.reserved_at_end(options.device))
    header.peer = reserved.peer(*at_end);
  auto trace = std::move(builder).finish(std::move(header));
  if (trace.events.empty())
    refuse_snapshot(fmt::format("its {} events allocate nothing; {}", number, kHowToRecord));
  return trace;
}

}  // namespace sluice::memory

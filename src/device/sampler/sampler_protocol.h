// The protocol between the sampler process and its parent:
// one JSON object per line, over one socket pair.
//
//   sampler ──▶ program
//     {"is":"gpus", "gpus":[…], "notes":[…]}              what it found; again on every change;
//                                                  with "driver_trouble" when a driver is down
//     {"is":"sample", "gpu":uuid, "at":ns, "values":{…}, "absent":[…], "processes":[…]}
//     {"is":"trouble", "gpu":uuid, "at":ns, "why":"…", "gone":true}
//     {"is":"xid", "gpu":uuid, "at":ns, "wall":ms, "code":79}
//     {"is":"beat", "at":ns, "busy":[{"gpu":uuid,"call":"nvmlInit_v2","since":ns}], "cost":{…}}
//     {"is":"end", "why":"…", "fault":true}               its last word before it exits
//   program ──▶ sampler
//     {"is":"intervals", "interval":1, "slow":5, "processes":10, "budget":0.001}
//     {"is":"follow", "gpus":{uuid:7}}                    whose processes matter now, see Follow
//
// Times are CLOCK_MONOTONIC nanoseconds, the same in both processes. Every GPU is
// named by uuid. Something is said every 1.2 s whatever the driver does: a sampler that
// is silent hangs as a whole. A beat names the calls that have not returned; one comes
// when there are any, when they have returned, when there was nothing else to say, and
// every 5 s with the cost.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "device/detect/found.h"
#include "device/reading.h"

namespace sluice::device {

// The result of one sampling round of one GPU.
struct Sample {
  std::string gpu;
  Instant at{};
  std::vector<std::pair<Metric, double>> values;
  std::vector<Metric> absent;  // queried and not answered: no longer known
  std::optional<std::vector<Process>> processes;
};

struct Trouble {
  std::string gpu;
  Instant at{};
  std::string why;
  bool gone = false;  // the driver says so; otherwise it only gave no useful answer
};

struct XidSeen {
  std::string gpu;
  Xid xid;
};

struct Busy {
  std::string gpu;   // or "search", "events": the sampler's own threads
  std::string call;  // "nvmlDeviceGetPowerUsage"
  Instant since{};
};

// Since the first GPUs were found; the start itself is not counted.
struct Cost {
  double core_share = 0, driver_share = 0;  // over the last minute
  double interval_scale = 1;
  std::uint64_t calls = 0, errors = 0;
};

struct Beat {
  Instant at{};
  std::vector<Busy> busy;
  Cost cost;
};

struct End {
  std::string why;
  bool fault = false;  // there is a driver, and it does not start
};

using Message = std::variant<Found, Sample, Trouble, XidSeen, Beat, End>;

// One line with its newline. Values that are not finite are left out.
std::string encode(const Message& message);
// Throws invalid_argument for anything that encode() did not write.
Message decode(std::string_view line);

// The sampling intervals.
struct SamplingIntervals {
  double interval_s = 1, slow_interval_s = 5, process_interval_s = 10;
  double budget = 0.001;  // share of a core and of the driver
};

// GPUs whose list of processes is read as soon as it may have changed: when the memory in use
// has, and when the number beside the GPU does. The others' are read at their interval.
struct Follow {
  std::map<std::string, std::uint64_t> gpus;  // by uuid
  friend bool operator==(const Follow&, const Follow&) = default;
};

// The only message from the program to a running sampler.
using Order = std::variant<SamplingIntervals, Follow>;
std::string encode(const Order& order);
Order decode_order(std::string_view line);  // throws invalid_argument

}  // namespace sluice::device

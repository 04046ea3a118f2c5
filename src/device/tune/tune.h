// Changing a GPU's settings so that they can be put back.
//
// plan_tuning() decides and is pure. apply() acts, reads back what it set, and
// undoes its own work when a step fails. What a GPU had before its first tuning is
// kept in a file (tune_record.h), so that it can be restored however often it was
// tuned since.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "device/nvml/nvml.h"

namespace sluice::device {

// Clocks under load. 0, 0: the driver chooses.
struct ClockPair {
  unsigned memory_mhz = 0, sm_mhz = 0;
  friend bool operator==(ClockPair, ClockPair) = default;
};

// An absent value is not available on this GPU, or is not requested.
struct Tuning {
  std::optional<bool> persistence;
  std::optional<double> power_limit_w;
  std::optional<ClockPair> clocks;

  bool empty() const noexcept { return !persistence && !power_limit_w && !clocks; }
};

struct TuneLimits {
  std::optional<double> min_w, max_w;
  // Each memory clock with its SM clocks, highest first.
  std::vector<std::pair<unsigned, std::vector<unsigned>>> clocks;
  // False: what is set now cannot be asked, so setting it always counts as a change
  // and undoing it leaves the choice to the driver.
  bool clocks_readable = true;
};

struct TunePlan {
  Tuning from, to;                    // the settings that change, before and after
  std::vector<std::string> problems;  // nothing may be done while there are any
  std::vector<std::string> warnings;
};

// Computes the changes that turn `current` into `target`. A value that is out of range
// is a problem that names the range; nothing is moved to the nearest allowed one.
TunePlan plan_tuning(const Tuning& current, const Tuning& target, const TuneLimits& limits);

struct TuneStep {
  std::string setting, from, to;  // "power limit", "700 W", "500 W"
};
std::vector<TuneStep> steps(const TunePlan& plan);

// The part of a GPU that is tuned. Calls answer with NVML's code.
class Knobs {
 public:
  virtual ~Knobs() = default;
  virtual Tuning read() = 0;
  virtual nvml::Return set_persistence(bool on) = 0;
  virtual nvml::Return set_power_limit(double watts) = 0;
  virtual nvml::Return set_clocks(ClockPair clocks) = 0;
};

// Application clocks where the driver has them, because they can be read back;
// locked clocks otherwise, of which only "not faster than requested" can be verified.
// `nvml` must outlive it.
std::unique_ptr<Knobs> knobs_of(const Nvml& nvml, nvml::Device device);
TuneLimits limits_of(const Nvml& nvml, nvml::Device device);

struct TuneOutcome {
  bool done = false;
  std::string problem;       // why not, and what to do
  bool rolled_back = false;  // after a problem: everything is as it was
};

// Persistence mode goes on first and off last: without it the driver may forget the
// rest. `plan` must have no problems.
TuneOutcome apply(Knobs& knobs, const TunePlan& plan);

Json to_json(const Tuning& tuning);         // only what is present
Tuning tuning_from_json(const Json& json);  // throws invalid_argument

}  // namespace sluice::device

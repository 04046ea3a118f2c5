// Decides from evidence alone whether a GPU may be given work. A pure function:
// no clock, no lock, no driver. Back-off and hysteresis live in the state.
//
//   healthy ──fault──▶ degraded ──cleared for a while──▶ healthy
//      │                   │
//      └──gone / fatal──▶ lost ──answers again──▶ probation ──canary ok──▶ healthy
//                          ▲                          │
//                          └──────── canary failed ───┘   (waits twice as long each time)
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/json.h"
#include "device/reading.h"

namespace sluice::device {

enum class HealthState { healthy, degraded, lost, probation };

enum class Canary { none, running, passed, failed };

// Current evidence about one GPU.
struct Evidence {
  bool gone = false;                    // the driver itself says that it is not there
  std::optional<Instant> silent_since;  // no answer since: its call hangs, or the sampler does
  std::string silence;                  // "GPU is lost", "hangs in nvmlDeviceGetPowerUsage"
  std::optional<int> recovery_action;   // NVML field 230
  std::span<const Xid> xids;            // new since the last step
  bool throttled = false;               // thermal or power brake, not the ordinary power cap
  bool uncorrected_ecc_grew = false;
  bool rows_failed = false;
  double error_rate = 0;  // of work on it, 0..1; stays 0 until models run on GPUs and report it
  Canary canary = Canary::none;
  std::string canary_note;  // the message of a failed one
};

struct HealthPolicy {
  double lost_after_s = 1.5;   // silent this long is lost
  double clear_after_s = 10;   // a fault must stay away this long
  double first_backoff_s = 1;  // lost to probation, doubled on each failed canary or relapse
  double longest_backoff_s = 300;
  double settle_s = 60;  // lost again within this time of its return is a relapse
  double error_rate_limit = 0.05;
};

struct Health {
  HealthState state = HealthState::healthy;
  std::string cause;                   // one sentence; empty when healthy
  std::string fix;                     // what a person can do
  Instant since{};                     // of this state
  std::optional<Instant> fault_at;     // the newest evidence of a fault
  std::optional<Instant> returned_at;  // when a canary last let it back in
  int failed_canaries = 0;
  int relapses = 0;
  bool wants_canary = false;  // the caller should run one and report it
};

// The next state. `before` is unchanged when nothing is new.
Health step(const Health& before, const Evidence& evidence, const HealthPolicy& policy,
            Instant now);

// "Stuck at 100 % with no process and no memory": a latched counter, not load.
bool is_ghost_utilization(const Readings& readings) noexcept;

// NVIDIA's meaning of an XID and its recommended action.
enum class XidAction { none, restart_app, check, drain_and_reset, reset_gpu, reboot };
struct XidInfo {
  unsigned code;
  std::string_view meaning;
  XidAction action;
};
XidInfo xid_info(unsigned code) noexcept;  // an unknown code is `check`

// The recovery action that the driver reports in field 230; 0 is "none". An unknown one is "unknown
// action".
std::string_view recovery_action_name(int action) noexcept;

std::string_view to_string(HealthState state) noexcept;
std::string_view to_string(XidAction action) noexcept;

}  // namespace sluice::device

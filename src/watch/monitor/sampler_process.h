// Keeps a sampler process running: starts it, notices when it falls silent or
// dies, starts another. Pure waiting and deciding; nothing here calls a driver or
// waits for a process. For one thread.
//
// A sampler that still speaks while one of its calls hangs, or that lost a GPU, is
// replaced only once its successor has found GPUs, so that the healthy GPUs are
// never out of sight: NVML sees a GPU that came back only in a new process.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/process/child.h"
#include "device/sampler/sampler_protocol.h"
#include "watch/monitor/sampler_timing.h"
#include "watch/snapshot.h"

namespace sluice::watch {

class SamplerProcess {
 public:
  struct Options {
    std::string program, demo;
    std::int64_t demo_epoch_ns = 0;
    device::SamplingIntervals intervals;
    SamplerTiming timing;
    device::Follow follow = {};
  };
  explicit SamplerProcess(Options options);
  ~SamplerProcess();  // gives it a moment to leave the driver in peace

  struct Silence {
    Instant since;
    std::string why;
  };
  struct Update {
    std::vector<device::Message> messages;
    std::optional<Silence> silence;  // all GPUs are out of sight since then
    bool changed = false;            // the state text is another one
  };
  // Returns what has happened. `any_gone`: some GPU is gone or gives no useful answer.
  Update advance(Instant now, bool any_gone);

  // Descriptors to poll; call advance() when one is readable, and at least every 250 ms.
  std::vector<int> fds() const;

  void set_intervals(const device::SamplingIntervals& intervals);
  void follow(const device::Follow& follow);
  SamplerCost cost() const;

 private:
  struct Run;  // one process and what it reported so far
  // So many that cannot be ended, as a process inside the driver cannot, and no new
  // one is started: each would only join them.
  static constexpr std::size_t kMaxEnding = 4;
  bool crowded() const noexcept;
  void start(Instant now);
  void start_successor(Instant now);
  void read(Run& run, Instant now, std::vector<device::Message>& into);
  void watch_current(Instant now, Update& update);
  void watch_successor(Instant now, Update& update);
  bool in_trouble(Instant now, bool any_gone);
  void current_ended(Instant now, Update& update);
  void retire(std::unique_ptr<Run> run, Instant now);
  std::string describe(Instant now) const;

  Options options_;
  std::unique_ptr<Run> current_, successor_;
  std::vector<std::unique_ptr<Run>> ending_;
  Instant start_at_{}, refresh_at_{};
  std::optional<Instant> gone_since_;
  double retry_s_, refresh_s_;
  bool had_gpus_ = false;
  bool driver_fault_ = false;  // why_not_ is that the driver does not start
  std::uint64_t restarts_ = 0;
  std::string state_ = "starting", why_not_;
  device::Cost last_cost_;
};

}  // namespace sluice::watch

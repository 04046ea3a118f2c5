// The inputs of the monitor's thread: the sampler process, the GPUs, their
// canaries and the host. For one thread; never waits.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "device/host/host.h"
#include "watch/monitor/canaries.h"
#include "watch/monitor/fleet.h"
#include "watch/monitor/monitor.h"
#include "watch/monitor/sampler_process.h"

namespace sluice::watch {

class Observation {
 public:
  // `demo_epoch_ns`: when the demo's story began, for every process that plays it.
  Observation(const Monitor::Options& options, std::int64_t demo_epoch_ns);

  // Takes in what has happened since the last call and judges it. Call it when one
  // of fds() is readable and at least five times a second.
  struct News {
    bool urgent = false;  // worth a snapshot now
    std::vector<Event> events;
  };
  News advance(Instant now);
  std::vector<int> fds() const;

  void set_intervals(const device::SamplingIntervals& intervals);
  void follow(const device::Follow& follow) { sampler_.follow(follow); }
  void describe(Snapshot& snapshot) const;  // all but alerts, server and times

 private:
  void judge(Instant now, News& news);
  void hear_canaries(Instant now, News& news);
  void start_canaries(Instant now);
  void look_at_host(Instant now);
  Event health_event(const Fleet::Change& change) const;
  Event xid_event(const device::XidSeen& seen) const;

  std::string demo_;
  SamplerProcess sampler_;
  Fleet fleet_;
  Canaries canaries_;
  device::Cpu cpu_;
  device::HostSampler host_;
  device::Readings host_readings_;
  double host_interval_s_;
  Instant host_at_{}, cpu_at_{};
};

device::SamplingIntervals intervals_of(const WatchConfig& config);

}  // namespace sluice::watch

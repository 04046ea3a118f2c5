// All GPUs ever seen and what is known of each: the sampler's messages put
// together, and each GPU's health judged from them. No process, no lock, no clock.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "device/health/health.h"
#include "device/sampler/sampler_protocol.h"
#include "watch/snapshot.h"

namespace sluice::watch {

class Fleet {
 public:
  explicit Fleet(device::HealthPolicy policy) : policy_(policy) {}

  void apply(const device::Message& message, Instant now);

  // The sampler as a whole gives no sign: every GPU is out of sight until its next
  // sample comes.
  void silence_all(Instant since, const std::string& why);

  void report_canary(const std::string& uuid, device::Canary result, std::string note);

  struct Change {
    std::string uuid;
    device::HealthState from;
    device::Health health;
  };
  // One step of every GPU's health; what came of it where the state changed.
  std::vector<Change> step(Instant now);

  std::vector<std::string> wanting_canary() const;
  // Some GPU is missing according to the driver, or gives no useful answer; one whose call
  // hangs does not count, the sampler's heartbeats report that.
  bool any_gone() const;

  std::vector<GpuView> views() const;  // ordered by bus
  // Returns whether these are all GPUs of the machine: while some are still to come, a GPU's place
  // among the others says nothing.
  bool has_all() const noexcept { return has_all_; }
  const std::vector<std::string>& notes() const noexcept { return notes_; }
  const GpuView* find(const std::string& uuid) const;

 private:
  struct Member {
    GpuView view;
    bool gone = false;
    bool hangs = false;  // a call for it has not returned
    std::optional<Instant> silent_since;
    std::string silence;
    std::vector<device::Xid> new_xids;
    std::uint64_t xid_count = 0;
    std::optional<double> uncorrected;  // as of the last step
    device::Canary canary = device::Canary::none;
    std::string canary_note;
  };
  void take(const device::Found& found, Instant now);
  void take(const device::Sample& sample, Instant now);
  void take(const device::Trouble& trouble, Instant now);
  void take(const device::XidSeen& seen, Instant now);
  void take(const device::Beat& beat, Instant now);
  void take(const device::End&, Instant) {}
  void notice_overdue(Instant at);
  static device::Evidence evidence(Member& member);

  device::HealthPolicy policy_;
  std::map<std::string, Member> members_;  // by uuid
  std::vector<std::string> notes_;
  bool has_all_ = false;
  Instant found_at_{};  // the last time that GPUs were named: each may need a moment to answer
};

}  // namespace sluice::watch

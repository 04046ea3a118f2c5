// The rule: find the worst thing the evidence says, then move along the diagram.
#include "device/health/health.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace sluice::device {

namespace {

using enum HealthState;

enum class Level { none, degraded, lost };

struct Fault {
  Level level = Level::none;
  std::string cause, fix;
};

// Recovery actions with which no work can go on; the others ask for care.
bool is_fatal_action(int action) {
  return action == 1 || action == 2 || action == 6 || action == 7;
}

Level level_of(XidAction action) {
  switch (action) {
    case XidAction::none:
    case XidAction::restart_app: return Level::none;
    case XidAction::check:
    case XidAction::drain_and_reset: return Level::degraded;
    case XidAction::reset_gpu:
    case XidAction::reboot: return Level::lost;
  }
  return Level::degraded;
}

std::string_view fix_of(XidAction action) {
  switch (action) {
    case XidAction::none: return "nothing to do";
    case XidAction::restart_app: return "restart the program that used the GPU";
    case XidAction::check:
      return "see the kernel log (dmesg | grep Xid) and NVIDIA's XID catalogue";
    case XidAction::drain_and_reset:
      return "let running work end, then reset the GPU: nvidia-smi --gpu-reset -i BUS";
    case XidAction::reset_gpu:
      return "stop what uses the GPU and reset it: nvidia-smi --gpu-reset -i BUS";
    case XidAction::reboot:
      return "reboot the machine; if it happens again check power, seating and PCIe riser";
  }
  return "";
}

Fault silence(const Evidence& e, const HealthPolicy& policy, Instant now) {
  const bool too_long =
      e.silent_since && seconds_between(*e.silent_since, now) >= policy.lost_after_s;
  if (!e.gone && !too_long) return {};
  return {Level::lost, e.silence.empty() ? "the driver does not answer for it" : e.silence,
          "see the kernel log (dmesg | grep -i nvrm); it returns by itself once the driver answers "
          "and a canary passes"};
}

Fault recovery(const Evidence& e) {
  if (!e.recovery_action || *e.recovery_action == 0) return {};
  const auto name = recovery_action_name(*e.recovery_action);
  const auto level = is_fatal_action(*e.recovery_action) ? Level::lost : Level::degraded;
  return {level, fmt::format("the driver asks to {}", name),
          fmt::format("{}; the driver clears the request when it is done", name)};
}

Fault worst_xid(const Evidence& e) {
  Fault worst;
  for (const auto& xid : e.xids) {
    const auto known = xid_info(xid.code);
    const auto level = level_of(known.action);
    if (level > worst.level)
      worst = {level, fmt::format("XID {}: {}", xid.code, known.meaning),
               std::string(fix_of(known.action))};
  }
  return worst;
}

Fault wear(const Evidence& e, const HealthPolicy& policy) {
  if (e.rows_failed)
    return {Level::degraded, "a memory row could not be replaced: no spare rows left",
            "plan to replace the card; run NVIDIA's field diagnostic"};
  if (e.uncorrected_ecc_grew)
    return {Level::degraded, "memory errors that could not be corrected",
            "let running work end and reset the GPU, so that the bad rows are replaced"};
  if (e.throttled)
    return {
        Level::degraded, "slowed down by heat or a power brake",
        "check airflow, dust, fans and the power supply; lower the power limit with sluice tune"};
  if (e.error_rate > policy.error_rate_limit)
    return {Level::degraded, fmt::format("{:.0f} % of the work on it fails", e.error_rate * 100),
            "see the server's log for the failing requests"};
  return {};
}

// XIDs before silence: of two reasons to be lost, the one that says why.
Fault worst(const Evidence& e, const HealthPolicy& policy, Instant now) {
  Fault faults[] = {worst_xid(e), recovery(e), silence(e, policy, now), wear(e, policy)};
  return std::move(*std::ranges::max_element(faults, {}, &Fault::level));
}

double backoff_s(const Health& h, const HealthPolicy& policy) {
  const int doublings = std::min(h.failed_canaries + h.relapses, 30);
  return std::min(policy.first_backoff_s * std::ldexp(1.0, doublings), policy.longest_backoff_s);
}

Health enter(Health h, HealthState state, std::string cause, std::string fix, Instant now) {
  if (h.state != state) h.since = now;
  h.state = state;
  h.cause = std::move(cause);
  h.fix = std::move(fix);
  h.wants_canary = false;
  return h;
}

Health lose(Health h, Fault fault, const HealthPolicy& policy, Instant now) {
  if (h.state == probation)
    ++h.failed_canaries;
  else if (h.returned_at && seconds_between(*h.returned_at, now) < policy.settle_s)
    ++h.relapses;
  h.fault_at = now;
  return enter(std::move(h), lost, std::move(fault.cause), std::move(fault.fix), now);
}

Health degrade(Health h, Fault fault, Instant now) {
  h.fault_at = now;
  return enter(std::move(h), degraded, std::move(fault.cause), std::move(fault.fix), now);
}

Health recover(Health h, Instant now) {
  h.fault_at.reset();
  return enter(std::move(h), healthy, "", "", now);
}

Health from_working(Health h, Fault fault, const HealthPolicy& policy, Instant now) {
  if (h.returned_at && seconds_between(*h.returned_at, now) >= policy.settle_s) {
    h.returned_at.reset();
    h.relapses = 0;
  }
  if (fault.level == Level::lost) return lose(std::move(h), std::move(fault), policy, now);
  if (fault.level == Level::degraded) return degrade(std::move(h), std::move(fault), now);
  const bool cleared = h.fault_at && seconds_between(*h.fault_at, now) >= policy.clear_after_s;
  return h.state == degraded && cleared ? recover(std::move(h), now) : h;
}

Health from_lost(Health h, const Evidence& e, Fault fault, const HealthPolicy& policy,
                 Instant now) {
  if (fault.level == Level::lost) {
    h.fault_at = now;
    const bool says_why = !e.xids.empty() || h.cause.empty();
    if (says_why) h.cause = std::move(fault.cause), h.fix = std::move(fault.fix);
    return h;
  }
  const bool answers = !e.silent_since;
  const Instant last = h.fault_at.value_or(h.since);
  if (!answers || seconds_between(last, now) < backoff_s(h, policy)) return h;
  auto next = enter(std::move(h), probation, "answers again; a canary must pass first", "", now);
  next.wants_canary = true;
  return next;
}

Health from_probation(Health h, const Evidence& e, Fault fault, const HealthPolicy& policy,
                      Instant now) {
  if (fault.level == Level::lost) return lose(std::move(h), std::move(fault), policy, now);
  if (e.canary == Canary::failed) {
    auto note = e.canary_note.empty() ? std::string("the canary failed")
                                      : "the canary failed: " + e.canary_note;
    return lose(std::move(h),
                {Level::lost, std::move(note), "reset the GPU: nvidia-smi --gpu-reset -i BUS"},
                policy, now);
  }
  if (e.canary == Canary::passed) {
    h.failed_canaries = 0;
    h.returned_at = now;
    return fault.level == Level::degraded ? degrade(std::move(h), std::move(fault), now)
                                          : recover(std::move(h), now);
  }
  h.wants_canary = e.canary == Canary::none;
  return h;
}

}  // namespace

Health step(const Health& before, const Evidence& evidence, const HealthPolicy& policy,
            Instant now) {
  auto fault = worst(evidence, policy, now);
  switch (before.state) {
    case healthy:
    case degraded: return from_working(before, std::move(fault), policy, now);
    case lost: return from_lost(before, evidence, std::move(fault), policy, now);
    case probation: return from_probation(before, evidence, std::move(fault), policy, now);
  }
  return before;
}

bool is_ghost_utilization(const Readings& readings) noexcept {
  // A program's context alone takes a few hundred MiB, so less means that there is no program.
  constexpr double kNobodysMemory = 64.0 * 1024 * 1024;
  const auto busy = readings.value(Metric::utilization);
  const auto used = readings.value(Metric::memory_used);
  const auto processes = readings.value(Metric::process_count);
  return busy && *busy >= 99 && used && *used < kNobodysMemory && processes && *processes == 0;
}

std::string_view to_string(HealthState state) noexcept {
  switch (state) {
    case healthy: return "healthy";
    case degraded: return "degraded";
    case lost: return "lost";
    case probation: return "probation";
  }
  return "lost";
}

}  // namespace sluice::device

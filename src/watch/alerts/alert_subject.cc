#include "watch/alerts/alert_subject.h"

#include <algorithm>
#include <array>

namespace sluice::watch {

namespace {

using device::Metric;
using device::Timed;
using device::XidAction;

constexpr double kXidWindow_s = 600;

std::optional<Timed> percent(const device::Readings& r, Metric part, Metric whole) {
  const auto& p = r.at(part);
  const auto& w = r.at(whole);
  if (!p || !w || w->value <= 0) return std::nullopt;
  return Timed{100 * p->value / w->value, std::min(p->at, w->at)};
}

std::optional<Timed> now_value(const Subject& s, double value) {
  return Timed{value, s.snapshot->at};
}

bool asks_for_reset(unsigned code) {
  const auto action = device::xid_info(code).action;
  return action == XidAction::drain_and_reset || action == XidAction::reset_gpu ||
         action == XidAction::reboot;
}

// Under which derived metric a code counts: a program's fault, a fault that needs a
// reset, or what the hardware only reports.
std::string_view xid_metric(unsigned code) {
  constexpr unsigned kEndedByItsFault = 43, kEndedEarly = 45;  // of a program, and all is done
  if (asks_for_reset(code)) return "xid_hardware";
  const bool program = device::xid_info(code).action == XidAction::restart_app ||
                       code == kEndedByItsFault || code == kEndedEarly;
  return program ? "xid_application" : "xid_notice";
}

std::optional<Timed> count_xids(const Subject& s, std::string_view metric) {
  const auto counts = [&](const device::Xid& x) {
    return seconds_between(x.at, s.snapshot->at) <= kXidWindow_s && xid_metric(x.code) == metric;
  };
  return now_value(s, static_cast<double>(std::ranges::count_if(s.gpu->xids, counts)));
}

double level_of(device::HealthState state) {
  switch (state) {
    case device::HealthState::healthy: return 0;
    case device::HealthState::probation: return 1;
    case device::HealthState::degraded: return 2;
    case device::HealthState::lost: return 3;
  }
  return 0;
}

// One function per derived metric; each is called only for a subject of its scope.
using Derive = std::optional<Timed> (*)(const Subject&);
struct Derivation {
  std::string_view name;
  Derive derive;
};

std::optional<Timed> sample_age(const Subject& s) {
  if (!s.gpu->sampled_at) return std::nullopt;
  return now_value(s, seconds_between(*s.gpu->sampled_at, s.snapshot->at));
}

std::optional<Timed> throttled(const Subject& s) {
  const auto& bits = s.readings->at(Metric::throttle_reasons);
  if (!bits) return std::nullopt;
  const auto mask = static_cast<std::uint64_t>(bits->value);
  return Timed{device::is_thermal_or_power_throttle(mask) ? 1.0 : 0.0, bits->at};
}

std::optional<Timed> sampler_down(const Subject& s) {
  const std::string& state = s.snapshot->sampler.state;
  if (state.empty() || state == "starting") return std::nullopt;
  const bool fine = state.starts_with("running") || state.starts_with("not needed") ||
                    !s.snapshot->sampler.driver_trouble.empty();  // which has its own rule
  return now_value(s, fine ? 0 : 1);
}

std::optional<Timed> driver_down(const Subject& s) {
  return now_value(s, s.snapshot->sampler.driver_trouble.empty() ? 0 : 1);
}

// A server that answers in microseconds doubles its time without anyone noticing.
std::optional<Timed> noticeable_p50(const Subject& s) {
  constexpr double kFloor_ms = 5;
  const auto& p50 = s.readings->at(Metric::request_p50);
  if (!p50) return std::nullopt;
  return Timed{std::max(p50->value, kFloor_ms), p50->at};
}

std::optional<Timed> owned(const Subject& s, OwnerMemory::Kind kind) {
  return s.owner->kind == kind ? std::optional(s.owner->used) : std::nullopt;
}

constexpr Derivation kDerivations[] = {
    {"memory_percent",
     [](const Subject& s) {
       return percent(*s.readings, Metric::memory_used, Metric::memory_total);
     }},
    {"health", [](const Subject& s) { return now_value(s, level_of(s.gpu->health.state)); }},
    {"lost",
     [](const Subject& s) {  // until its canary has passed it is not back
       const bool waits = s.gpu->health.state == device::HealthState::probation;
       return now_value(s, s.lost() || waits ? 1 : 0);
     }},
    {"degraded",
     [](const Subject& s) {
       return now_value(s, s.gpu->health.state == device::HealthState::degraded ? 1 : 0);
     }},
    {"ghost_utilization",
     [](const Subject& s) { return now_value(s, s.gpu->ghost_utilization ? 1 : 0); }},
    {"sample_age", sample_age},
    {"xid_hardware", [](const Subject& s) { return count_xids(s, "xid_hardware"); }},
    {"xid_application", [](const Subject& s) { return count_xids(s, "xid_application"); }},
    {"xid_notice", [](const Subject& s) { return count_xids(s, "xid_notice"); }},
    {"throttled", throttled},
    {"host_memory_percent",
     [](const Subject& s) {
       return percent(*s.readings, Metric::host_memory_used, Metric::host_memory_total);
     }},
    {"noticeable_p50", noticeable_p50},
    {"driver_down", driver_down},
    {"sampler_down", sampler_down},
    {"sampler_interval_scale",
     [](const Subject& s) { return now_value(s, s.snapshot->sampler.interval_scale); }},
    {"history_down",
     [](const Subject& s) { return now_value(s, s.snapshot->history_trouble.empty() ? 0 : 1); }},
    {"leases_damaged",
     [](const Subject& s) { return now_value(s, s.snapshot->lease_store.damage.empty() ? 0 : 1); }},
    {"leases_down",
     [](const Subject& s) {
       return now_value(s, s.snapshot->lease_store.trouble.empty() ? 0 : 1);
     }},
    {"lease_memory", [](const Subject& s) { return owned(s, OwnerMemory::Kind::lease); }},
    {"pool_memory", [](const Subject& s) { return owned(s, OwnerMemory::Kind::pool); }},
};

// Metrics that do not come from the GPU's own answers.
constexpr std::array<std::string_view, 7> kKnownWhileLost{
    "health", "lost", "degraded", "sample_age", "xid_hardware", "xid_application", "xid_notice"};

// Damage readings of a card that was taken out of service count as long as it still answers:
// often they are the reason.
constexpr std::array<std::string_view, 3> kDamage{"ecc_uncorrected", "rows_pending", "rows_failed"};
constexpr double kStillAnswers_s = 15;

bool is_fresh_damage(const Subject& s, std::string_view metric) {
  if (std::ranges::find(kDamage, metric) == kDamage.end()) return false;
  const auto value = value_of(s, metric);
  return value && seconds_between(value->at, s.snapshot->at) <= kStillAnswers_s;
}

}  // namespace

bool Subject::lost() const noexcept {
  return gpu != nullptr && gpu->health.state == device::HealthState::lost;
}

std::vector<Subject> subjects_of(const Snapshot& s) {
  std::vector<Subject> all;
  for (const auto& g : s.gpus)
    all.push_back({g.gpu.uuid, g.gpu.bus.empty() ? g.gpu.name : g.gpu.name + " " + g.gpu.bus,
                   device::Scope::gpu, &s, &g.readings, &g});
  all.push_back({"cpu", "CPU", device::Scope::cpu, &s, &s.host, nullptr});
  all.push_back({"server", "server", device::Scope::server, &s, &s.server, nullptr});
  static const device::Readings kNoReadings;
  for (const auto& o : s.owners)
    all.push_back({o.id, o.title, device::Scope::owner, &s, &kNoReadings, nullptr, &o});
  return all;
}

std::optional<Timed> value_of(const Subject& subject, std::string_view metric) {
  for (const auto& d : kDerivations)
    if (d.name == metric) return d.derive(subject);
  const auto known = device::find_metric(metric);
  return known ? subject.readings->at(*known) : std::nullopt;
}

std::string_view why_void(const Subject& subject, std::string_view metric) {
  if (subject.gpu == nullptr) return {};
  if (subject.lost() && std::ranges::find(kKnownWhileLost, metric) == kKnownWhileLost.end() &&
      !is_fresh_damage(subject, metric))
    return "the GPU is lost";
  if (metric == "utilization" && subject.gpu->ghost_utilization)
    return "the utilization counter is stuck, no process uses the GPU";
  return {};
}

const device::Process* top_process(const Subject& subject) {
  const auto& list = subject.readings->processes;
  const auto heavier = [](const device::Process& a, const device::Process& b) {
    const auto load = [](const device::Process& p) {
      return std::pair{p.utilization.value_or(0), p.memory.value_or(0)};
    };
    return load(a) < load(b);
  };
  const auto it = std::ranges::max_element(list, heavier);
  return it == list.end() ? nullptr : &*it;
}

const device::Xid* newest_xid(const Subject& subject, std::string_view metric) {
  if (subject.gpu == nullptr) return nullptr;
  const auto& xids = subject.gpu->xids;
  const auto it = std::find_if(xids.rbegin(), xids.rend(), [&](const device::Xid& x) {
    return !metric.starts_with("xid_") || xid_metric(x.code) == metric;
  });
  return it == xids.rend() ? nullptr : &*it;
}

}  // namespace sluice::watch

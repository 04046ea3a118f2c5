#include "watch/monitor/fleet.h"

#include <algorithm>

namespace sluice::watch {

using device::Canary;
using device::HealthState;
using device::Metric;

namespace {

// The rule of health knows no GPU by name; people copy the command.
void name_the_bus(std::string& fix, const std::string& bus) {
  constexpr std::string_view kEnd = "-i BUS";
  if (fix.ends_with(kEnd) && !bus.empty()) fix.replace(fix.size() - 3, 3, bus);
}

}  // namespace

void Fleet::apply(const device::Message& message, Instant now) {
  std::visit([&](const auto& m) { take(m, now); }, message);
}

void Fleet::take(const device::Found& found, Instant now) {
  notes_ = found.notes;
  found_at_ = now;
  bool any_new = false;
  for (const auto& gpu : found.gpus) {
    const auto [at, is_new] = members_.try_emplace(gpu.uuid);
    at->second.view.gpu = gpu;
    if (is_new) at->second.view.health.since = now;
    any_new = any_new || is_new;
  }
  // A sampler that starts again names those that are known one by one, too.
  has_all_ = found.has_all || (has_all_ && !any_new);
}

void Fleet::take(const device::Sample& sample, Instant) {
  const auto found = members_.find(sample.gpu);
  if (found == members_.end()) return;
  auto& member = found->second;
  auto& readings = member.view.readings;
  for (const auto& [metric, value] : sample.values) readings.set(metric, value, sample.at);
  for (const auto metric : sample.absent) readings.clear(metric);
  readings.set(Metric::xid_count, static_cast<double>(member.xid_count), sample.at);
  if (sample.processes) {
    readings.processes = *sample.processes;
    readings.processes_at = sample.at;
  }
  member.view.sampled_at = sample.at;
  member.gone = member.hangs = false;
  member.silent_since.reset();
  member.silence.clear();
}

void Fleet::take(const device::Trouble& trouble, Instant) {
  const auto found = members_.find(trouble.gpu);
  if (found == members_.end()) return;
  auto& member = found->second;
  if (!member.silent_since) member.silent_since = trouble.at;
  member.gone = member.gone || trouble.gone;
  member.silence = trouble.why;
}

void Fleet::take(const device::XidSeen& seen, Instant) {
  constexpr std::size_t kMaxXids = 32;
  const auto found = members_.find(seen.gpu);
  if (found == members_.end()) return;
  auto& member = found->second;
  ++member.xid_count;
  member.new_xids.push_back(seen.xid);
  auto& kept = member.view.xids;
  kept.push_back(seen.xid);
  if (kept.size() > kMaxXids) kept.erase(kept.begin());
  member.view.readings.set(Metric::xid_last, seen.xid.code, seen.xid.at);
  member.view.readings.set(Metric::xid_count, static_cast<double>(member.xid_count), seen.xid.at);
}

// A call that has not returned is silence from its beginning; only the next sample
// ends it, so that a new sampler which has not read it yet does not.
void Fleet::take(const device::Beat& beat, Instant now) {
  constexpr double kNoticeable = 0.15;
  for (const auto& busy : beat.busy) {
    const auto found = members_.find(busy.gpu);
    if (found == members_.end() || seconds_between(busy.since, now) < kNoticeable) continue;
    auto& member = found->second;
    if (!member.silent_since) member.silent_since = busy.since;
    member.hangs = true;
    if (!member.gone) member.silence = "hangs in " + busy.call;
  }
  notice_overdue(beat.at);
}

// A sampler that beats but has stopped asking for a GPU. By the sampler's own
// clock: its messages come in order, so whatever it had sampled by then is here.
void Fleet::notice_overdue(Instant at) {
  // Each GPU is felt for once a second. Files of the kernel may take their time, to
  // wake a sleeping card for one, and no call is named meanwhile.
  constexpr double kDue_s = 1, kDueFromFiles_s = 3, kSlack_s = 0.5;
  for (auto& [uuid, member] : members_) {
    if (member.silent_since) continue;
    const auto last = std::max(member.view.sampled_at.value_or(found_at_), found_at_);
    const double due = member.view.gpu.vendor == device::Vendor::nvidia ? kDue_s : kDueFromFiles_s;
    if (seconds_between(last, at) < due + kSlack_s) continue;
    member.silent_since = last + std::chrono::duration_cast<Steady::duration>(Seconds(due));
    member.silence = "the sampler runs but no longer reads it";
  }
}

void Fleet::silence_all(Instant since, const std::string& why) {
  for (auto& [uuid, member] : members_) {
    if (member.silent_since) continue;
    member.silent_since = since;
    member.silence = why;
  }
}

void Fleet::report_canary(const std::string& uuid, Canary result, std::string note) {
  if (const auto found = members_.find(uuid); found != members_.end()) {
    found->second.canary = result;
    found->second.canary_note = std::move(note);
  }
}

device::Evidence Fleet::evidence(Member& member) {
  const auto& readings = member.view.readings;
  device::Evidence e;
  e.gone = member.gone;
  e.silent_since = member.silent_since;
  e.silence = member.silence;
  e.xids = member.new_xids;
  e.canary = member.canary;
  e.canary_note = member.canary_note;
  // Readings from before it fell silent are no evidence now.
  if (member.silent_since) return e;
  if (const auto action = readings.value(Metric::recovery_action))
    e.recovery_action = static_cast<int>(*action);
  if (const auto bits = readings.value(Metric::throttle_reasons))
    e.throttled = device::is_thermal_or_power_throttle(static_cast<std::uint64_t>(*bits));
  e.rows_failed = readings.value(Metric::rows_failed).value_or(0) > 0;
  if (const auto errors = readings.value(Metric::ecc_uncorrected)) {
    e.uncorrected_ecc_grew = member.uncorrected && *errors > *member.uncorrected;
    member.uncorrected = errors;
  }
  return e;
}

std::vector<Fleet::Change> Fleet::step(Instant now) {
  std::vector<Change> changes;
  for (auto& [uuid, member] : members_) {
    auto& view = member.view;
    const auto before = view.health.state;
    view.health = device::step(view.health, evidence(member), policy_, now);
    name_the_bus(view.health.fix, view.gpu.bus);
    view.ghost_utilization = device::is_ghost_utilization(view.readings);
    member.new_xids.clear();
    // One that ran when the GPU left probation was cancelled: no result will come.
    if (member.canary != Canary::running || view.health.state != HealthState::probation)
      member.canary = Canary::none;
    if (view.health.state != before) changes.push_back({uuid, before, view.health});
  }
  return changes;
}

std::vector<std::string> Fleet::wanting_canary() const {
  std::vector<std::string> all;
  for (const auto& [uuid, member] : members_)
    if (member.view.health.wants_canary && member.canary == Canary::none) all.push_back(uuid);
  return all;
}

bool Fleet::any_gone() const {
  return std::ranges::any_of(members_, [](const auto& m) {
    return m.second.gone || (m.second.silent_since && !m.second.hangs);
  });
}

std::vector<GpuView> Fleet::views() const {
  std::vector<GpuView> all;
  for (const auto& [uuid, member] : members_) all.push_back(member.view);
  std::ranges::stable_sort(all, {}, [](const GpuView& v) { return v.gpu.bus; });
  return all;
}

const GpuView* Fleet::find(const std::string& uuid) const {
  const auto found = members_.find(uuid);
  return found == members_.end() ? nullptr : &found->second.view;
}

}  // namespace sluice::watch

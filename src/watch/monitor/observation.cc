#include "watch/monitor/observation.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "device/host/cpu.h"

namespace sluice::watch {

namespace {

WallTime wall_now() { return std::chrono::system_clock::now(); }

std::string without_breaks(const Json& j) {
  return j.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

device::SamplingIntervals intervals_of(const WatchConfig& config) {
  return {config.interval_s, config.slow_interval_s, config.process_interval_s, config.cost_budget};
}

Observation::Observation(const Monitor::Options& o, std::int64_t demo_epoch_ns)
    : demo_(o.demo),
      sampler_({o.program, o.demo, demo_epoch_ns, intervals_of(o.config), o.timing}),
      fleet_(o.health),
      canaries_({o.program, o.demo, demo_epoch_ns}),
      cpu_(device::detect_cpu()),
      host_(cpu_),
      host_interval_s_(o.config.interval_s) {}

std::vector<int> Observation::fds() const {
  auto all = sampler_.fds();
  const auto canaries = canaries_.fds();
  all.insert(all.end(), canaries.begin(), canaries.end());
  return all;
}

void Observation::set_intervals(const device::SamplingIntervals& intervals) {
  host_interval_s_ = intervals.interval_s;
  sampler_.set_intervals(intervals);
}

Observation::News Observation::advance(Instant now) {
  News news;
  auto update = sampler_.advance(now, fleet_.any_gone());
  for (const auto& message : update.messages) {
    fleet_.apply(message, now);
    if (const auto* xid = std::get_if<device::XidSeen>(&message))
      news.events.push_back(xid_event(*xid));
    // A list is read rarely, or because a caller waits for it.
    const auto* sample = std::get_if<device::Sample>(&message);
    news.urgent = news.urgent || std::holds_alternative<device::Found>(message) ||
                  (sample != nullptr && sample->processes);
  }
  if (update.silence) fleet_.silence_all(update.silence->since, update.silence->why);
  if (update.changed) {
    const auto cost = sampler_.cost();
    const Json j{{"state", cost.state}, {"pid", cost.pid}, {"restarts", cost.restarts}};
    news.events.push_back({"sampler", wall_now(), without_breaks(j)});
  }
  hear_canaries(now, news);
  judge(now, news);
  start_canaries(now);
  look_at_host(now);
  return news;
}

void Observation::judge(Instant now, News& news) {
  for (const auto& change : fleet_.step(now)) {
    news.urgent = true;
    news.events.push_back(health_event(change));
    if (change.from == device::HealthState::probation) canaries_.cancel(change.uuid, now);
    const auto* view = fleet_.find(change.uuid);
    log::info("{} {}: {} -> {}{}{}", view->gpu.name, view->gpu.bus, to_string(change.from),
              to_string(change.health.state), change.health.cause.empty() ? "" : ": ",
              change.health.cause);
  }
}

void Observation::hear_canaries(Instant now, News& news) {
  for (auto& result : canaries_.advance(now)) {
    log::info("canary on {} {}: {}", result.uuid, result.passed ? "passed" : "failed", result.note);
    fleet_.report_canary(result.uuid,
                         result.passed ? device::Canary::passed : device::Canary::failed,
                         std::move(result.note));
    news.urgent = true;
  }
}

void Observation::start_canaries(Instant now) {
  for (const auto& uuid : fleet_.wanting_canary()) {
    canaries_.start(uuid, now);
    fleet_.report_canary(uuid, device::Canary::running, "");
  }
}

void Observation::look_at_host(Instant now) {
  constexpr double kSlack = 0.05;  // a wake-up a little early still counts
  constexpr double kCpuAgain = 60;
  if (seconds_between(host_at_, now) >= host_interval_s_ - kSlack) {
    host_.sample(host_readings_, now);
    host_at_ = now;
  }
  if (seconds_between(cpu_at_, now) >= kCpuAgain) {
    cpu_ = device::detect_cpu();
    cpu_at_ = now;
  }
}

Event Observation::health_event(const Fleet::Change& change) const {
  const auto* view = fleet_.find(change.uuid);
  const Json j{{"device", change.uuid},
               {"device_name", view->gpu.name},
               {"bus", view->gpu.bus},
               {"from", to_string(change.from)},
               {"state", to_string(change.health.state)},
               {"cause", change.health.cause},
               {"fix", change.health.fix}};
  return {"health", wall_now(), without_breaks(j)};
}

Event Observation::xid_event(const device::XidSeen& seen) const {
  const auto known = device::xid_info(seen.xid.code);
  const auto* view = fleet_.find(seen.gpu);
  const Json j{{"device", seen.gpu},
               {"device_name", view != nullptr ? view->gpu.name : ""},
               {"code", seen.xid.code},
               {"meaning", known.meaning},
               {"action", to_string(known.action)}};
  return {"xid", seen.xid.wall, without_breaks(j)};
}

void Observation::describe(Snapshot& snapshot) const {
  snapshot.cpu = cpu_;
  snapshot.host = host_readings_;
  snapshot.gpus = fleet_.views();
  snapshot.has_all_gpus = fleet_.has_all();
  snapshot.sampler = sampler_.cost();
  snapshot.notes = fleet_.notes();
  snapshot.demo = demo_;
}

}  // namespace sluice::watch

#include "watch/snapshot.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace sluice::watch {

namespace {

using device::Metric;

// Rounded to the millisecond and never negative: two processes read their clocks at different
// moments.
double age(Instant then, Instant now) {
  return std::max(0.0, std::round(seconds_between(then, now) * 1000) / 1000);
}

Json readings_json(const device::Readings& readings, Instant now) {
  Json all = Json::object();
  for (const auto& m : device::metrics())
    if (const auto& timed = readings.at(m.id))
      all[std::string(m.name)] = {
          {"value", timed->value}, {"unit", m.unit}, {"age_s", age(timed->at, now)}};
  return all;
}

Json process_json(const device::Process& p) {
  Json j{{"pid", p.pid}, {"name", p.name}, {"user", p.user}, {"kind", p.kind}};
  if (p.memory) j["memory_bytes"] = *p.memory;
  if (p.utilization) j["utilization"] = *p.utilization;
  if (p.memory_activity) j["memory_activity"] = *p.memory_activity;
  return j;
}

Json health_json(const device::Health& h, Instant now) {
  return {{"state", to_string(h.state)},
          {"cause", h.cause},
          {"fix", h.fix},
          {"since_s", age(h.since, now)},
          {"failed_canaries", h.failed_canaries}};
}

Json xid_json(const device::Xid& xid, Instant now) {
  const auto known = device::xid_info(xid.code);
  return {{"code", xid.code},
          {"meaning", known.meaning},
          {"action", to_string(known.action)},
          {"age_s", age(xid.at, now)},
          {"time", iso_time(xid.wall)}};
}

Json sampler_json(const SamplerCost& s) {
  return {{"state", s.state},
          {"pid", s.pid},
          {"core_share", s.core_share},
          {"driver_share", s.driver_share},
          {"interval_scale", s.interval_scale},
          {"calls", s.calls},
          {"errors", s.errors},
          {"restarts", s.restarts}};
}

void add_memory_percent(Json& j, const device::Readings& readings) {
  const auto used = readings.value(Metric::memory_used);
  const auto total = readings.value(Metric::memory_total);
  if (used && total && *total > 0) j["memory_percent"] = *used / *total * 100;
}

}  // namespace

Json to_json(const GpuView& gpu, Instant now) {
  Json j{{"uuid", gpu.gpu.uuid},
         {"bus", gpu.gpu.bus},
         {"name", gpu.gpu.name},
         {"vendor", to_string(gpu.gpu.vendor)},
         {"info", to_json(gpu.gpu)}};
  if (gpu.sampled_at) j["age_s"] = age(*gpu.sampled_at, now);
  j["health"] = health_json(gpu.health, now);
  j["readings"] = readings_json(gpu.readings, now);
  add_memory_percent(j, gpu.readings);
  if (const auto bits = gpu.readings.value(Metric::throttle_reasons))
    j["throttle"] = device::throttle_names(static_cast<std::uint64_t>(*bits));
  j["ghost_utilization"] = gpu.ghost_utilization;
  if (gpu.readings.processes_at) {
    Json list = Json::array();
    for (const auto& p : gpu.readings.processes) list.push_back(process_json(p));
    j["processes"] = {{"age_s", age(*gpu.readings.processes_at, now)}, {"list", std::move(list)}};
  }
  j["xids"] = Json::array();
  for (const auto& xid : gpu.xids) j["xids"].push_back(xid_json(xid, now));
  return j;
}

Json to_json(const Snapshot& snapshot, Instant now) {
  Json j{{"sequence", snapshot.sequence},
         {"time", iso_time(snapshot.wall)},
         {"time_ms", unix_ms(snapshot.wall)},
         {"demo", snapshot.demo}};
  j["gpus"] = Json::array();
  for (const auto& gpu : snapshot.gpus) j["gpus"].push_back(to_json(gpu, now));
  j["cpu"] = {{"info", to_json(snapshot.cpu)}, {"readings", readings_json(snapshot.host, now)}};
  j["server"] = {{"readings", readings_json(snapshot.server, now)}};
  j["alerts"] = Json::array();
  for (const auto& alert : snapshot.alerts) j["alerts"].push_back(to_json(alert));
  j["sampler"] = sampler_json(snapshot.sampler);
  j["notes"] = snapshot.notes;
  return j;
}

}  // namespace sluice::watch

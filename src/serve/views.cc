#include "serve/views.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/bytes.h"

namespace sluice::serve {

namespace {

using device::HealthState;
using device::Metric;
using device::Readings;

// Divided by a whole number, so that it prints as 0.237 and not as 0.23700000000000002.
double thousandths(double value) { return std::round(value * 1000) / 1000; }

double age(Instant at, Instant now) { return thousandths(std::max(0.0, seconds_between(at, now))); }

Json identity(const watch::GpuView& g) {
  return {{"uuid", g.gpu.uuid}, {"bus", g.gpu.bus}, {"name", g.gpu.name}};
}

// `json[name]` and its age, when it was measured.
void put(Json& json, std::string_view name, const std::optional<device::Timed>& reading,
         Instant now, double scale = 1) {
  if (!reading) return;
  json[std::string(name)] = thousandths(reading->value * scale);
  json["age_s"][std::string(name)] = age(reading->at, now);
}

std::optional<device::Timed> share(const Readings& r, Metric part, Metric whole) {
  const auto &p = r.at(part), &w = r.at(whole);
  if (!p || !w || w->value <= 0) return std::nullopt;
  return device::Timed{100 * p->value / w->value, std::min(p->at, w->at)};
}

std::size_t count(const watch::Snapshot& s, HealthState state) {
  return static_cast<std::size_t>(
      std::ranges::count(s.gpus, state, [](const auto& g) { return g.health.state; }));
}

// The worst state of any GPU. A machine without a GPU is no failure; a driver that does not start
// is.
std::string_view worst(const watch::Snapshot& s) {
  if (s.gpus.empty() && !s.sampler.driver_trouble.empty()) return "driver_down";
  if (s.gpus.empty()) return s.sampler.state == "starting" ? "starting" : "no_gpu";
  if (count(s, HealthState::lost) > 0) return device::to_string(HealthState::lost);
  if (!s.sampler.driver_trouble.empty()) return "driver_down";  // beside another vendor's GPUs
  for (const auto state : {HealthState::probation, HealthState::degraded})
    if (count(s, state) > 0) return device::to_string(state);
  return device::to_string(HealthState::healthy);
}

Json sampler_view(const watch::SamplerCost& sampler) {
  return {{"state", sampler.state},
          {"core_share", sampler.core_share},
          {"driver_share", sampler.driver_share},
          {"interval_scale", sampler.interval_scale}};
}

Json alert_counts(const watch::Snapshot& s) {
  Json made = {{"critical", 0}, {"warning", 0}, {"info", 0}};
  for (const auto& alert : s.alerts) {
    auto& n = made[std::string(to_string(alert.severity))];
    n = n.get<int>() + 1;
  }
  return made;
}

Json throttle_of(const Readings& r) {
  Json names = Json::array();
  if (const auto bits = r.value(Metric::throttle_reasons))
    for (const auto name : device::throttle_names(static_cast<std::uint64_t>(*bits)))
      names.push_back(name);
  return names;
}

Json gpu_health(const watch::GpuView& g, Instant now) {
  auto json = identity(g);
  json["state"] = device::to_string(g.health.state);
  json["cause"] = g.health.cause;
  json["fix"] = g.health.fix;
  json["since_s"] = age(g.health.since, now);
  json["failed_canaries"] = g.health.failed_canaries;
  if (g.sampled_at) json["age_s"] = age(*g.sampled_at, now);
  json["throttle"] = throttle_of(g.readings);
  json["ghost_utilization"] = g.ghost_utilization;
  json["xids"] = Json::array();
  for (const auto& xid : g.xids) {
    const auto known = device::xid_info(xid.code);
    json["xids"].push_back({{"code", xid.code},
                            {"meaning", known.meaning},
                            {"action", device::to_string(known.action)},
                            {"age_s", age(xid.at, now)}});
  }
  return json;
}

Json process_memory(const Readings& r) {
  Json list = Json::array();
  for (const auto& p : r.processes) {
    Json one = {{"pid", p.pid}, {"name", p.name}, {"user", p.user}, {"kind", p.kind}};
    if (p.memory) one["allocated_gb"] = thousandths(static_cast<double>(*p.memory) / kGiB);
    list.push_back(std::move(one));
  }
  return list;
}

Json gpu_memory(const watch::GpuView& g, Instant now) {
  auto json = identity(g);
  put(json, "total_gb", g.readings.at(Metric::memory_total), now, 1 / kGiB);
  put(json, "allocated_gb", g.readings.at(Metric::memory_used), now, 1 / kGiB);
  put(json, "reserved_gb", g.readings.at(Metric::memory_reserved), now, 1 / kGiB);
  put(json, "free_gb", g.readings.at(Metric::memory_free), now, 1 / kGiB);
  put(json, "utilization_pct", share(g.readings, Metric::memory_used, Metric::memory_total), now);
  if (g.readings.processes_at) {
    json["processes"] = process_memory(g.readings);
    json["age_s"]["processes"] = age(*g.readings.processes_at, now);
  }
  return json;
}

// The same fields over all GPUs; the age is that of the oldest part.
Json memory_sum(const Json& gpus) {
  Json sum = Json::object();
  double oldest = 0;
  for (const auto& g : gpus) {
    for (const auto* name : {"total_gb", "allocated_gb", "reserved_gb", "free_gb"})
      if (g.contains(name)) sum[name] = thousandths(sum.value(name, 0.0) + g[name].get<double>());
    if (g.contains("age_s")) oldest = std::max(oldest, g["age_s"].value("allocated_gb", 0.0));
  }
  if (sum.value("total_gb", 0.0) > 0 && sum.contains("allocated_gb"))
    sum["utilization_pct"] =
        thousandths(100 * sum["allocated_gb"].get<double>() / sum["total_gb"].get<double>());
  if (!sum.empty()) sum["age_s"] = oldest;
  return sum;
}

Json host_memory(const Readings& host, Instant now) {
  Json json = Json::object();
  put(json, "total_gb", host.at(Metric::host_memory_total), now, 1 / kGiB);
  put(json, "allocated_gb", host.at(Metric::host_memory_used), now, 1 / kGiB);
  put(json, "free_gb", host.at(Metric::host_memory_free), now, 1 / kGiB);
  put(json, "utilization_pct", share(host, Metric::host_memory_used, Metric::host_memory_total),
      now);
  return json;
}

Json gpu_performance(const watch::GpuView& g, Instant now) {
  const auto& r = g.readings;
  auto json = identity(g);
  put(json, "gpu_utilization", r.at(Metric::utilization), now);
  put(json, "memory_utilization", share(r, Metric::memory_used, Metric::memory_total), now);
  put(json, "memory_activity", r.at(Metric::memory_activity), now);
  put(json, "temperature", r.at(Metric::temperature), now);
  put(json, "power_draw", r.at(Metric::power), now);
  put(json, "power_limit", r.at(Metric::power_limit), now);
  put(json, "sm_clock_mhz", r.at(Metric::sm_clock), now);
  put(json, "memory_clock_mhz", r.at(Metric::memory_clock), now);
  put(json, "active_processes", r.at(Metric::process_count), now);
  json["throttle"] = throttle_of(r);
  json["ghost_utilization"] = g.ghost_utilization;
  return json;
}

Json cpu_performance(const Readings& host, Instant now) {
  Json json = Json::object();
  put(json, "cpu_utilization", host.at(Metric::cpu_utilization), now);
  put(json, "load", host.at(Metric::cpu_load), now);
  put(json, "memory_utilization", share(host, Metric::host_memory_used, Metric::host_memory_total),
      now);
  put(json, "temperature", host.at(Metric::cpu_temperature), now);
  return json;
}

Json server_performance(const Readings& server, const Traffic::Totals& traffic, Instant now) {
  Json json = {{"requests_total", traffic.total},
               {"errors_total", traffic.server_errors},
               {"connections", traffic.connections},
               {"streams", traffic.streams}};
  put(json, "requests_per_s", server.at(Metric::request_rate), now);
  put(json, "error_pct", server.at(Metric::request_error_rate), now);
  put(json, "p50_ms", server.at(Metric::request_p50), now);
  put(json, "p99_ms", server.at(Metric::request_p99), now);
  return json;
}

// Why all is not well. Everybody may read it: no paths, no details.
Json reasons_of(const watch::Snapshot& s) {
  Json reasons = Json::array();
  for (const auto& g : s.gpus)
    if (g.health.state != HealthState::healthy)
      reasons.push_back(g.gpu.name + " is " + std::string(device::to_string(g.health.state)));
  if (!s.sampler.driver_trouble.empty()) reasons.push_back("a driver does not start");
  if (!s.lease_store.trouble.empty()) reasons.push_back("leases cannot be stored");
  if (!s.lease_store.damage.empty()) reasons.push_back("stored leases were found damaged");
  return reasons;
}

}  // namespace

bool is_ready(const watch::Snapshot& snapshot, Instant now) noexcept {
  return seconds_between(snapshot.at, now) < kStaleAfter;
}

Json health_view(const watch::Snapshot& s, const About& about, Instant now) {
  const bool ready = is_ready(s, now);
  const auto reasons = reasons_of(s);
  return {{"status", !ready            ? "unready"
                     : reasons.empty() ? "ok"
                                       : "degraded"},
          {"reasons", reasons},
          {"live", true},
          {"ready", ready},
          {"version", about.version},
          {"uptime_s", thousandths(seconds_between(about.started, now))},
          {"age_s", age(s.at, now)},
          {"devices",
           {{"gpus", s.gpus.size()},
            {"healthy", count(s, HealthState::healthy)},
            {"degraded", count(s, HealthState::degraded)},
            {"lost", count(s, HealthState::lost)},
            {"probation", count(s, HealthState::probation)},
            {"cpu_cores", s.cpu.usable_cores}}},
          {"alerts", alert_counts(s)},
          {"demo", s.demo}};
}

Json gpu_health_view(const watch::Snapshot& s, Instant now) {
  Json json = {{"status", worst(s)}, {"age_s", age(s.at, now)}, {"gpus", Json::array()}};
  for (const auto& g : s.gpus) json["gpus"].push_back(gpu_health(g, now));
  json["sampler"] = sampler_view(s.sampler);
  json["notes"] = s.notes;
  return json;
}

Json gpu_memory_view(const watch::Snapshot& s, Instant now) {
  Json gpus = Json::array();
  for (const auto& g : s.gpus) gpus.push_back(gpu_memory(g, now));
  Json json = memory_sum(gpus);
  json["gpus"] = std::move(gpus);
  json["host"] = host_memory(s.host, now);
  return json;
}

Json performance_view(const watch::Snapshot& s, const Traffic::Totals& traffic, Instant now) {
  Json json = {{"gpus", Json::array()}};
  for (const auto& g : s.gpus) json["gpus"].push_back(gpu_performance(g, now));
  json["cpu"] = cpu_performance(s.host, now);
  json["server"] = server_performance(s.server, traffic, now);
  json["sampler"] = sampler_view(s.sampler);
  return json;
}

Json devices_view(const watch::Snapshot& s) {
  device::Inventory inventory;
  for (const auto& g : s.gpus) inventory.gpus.push_back(g.gpu);
  inventory.cpu = s.cpu;
  inventory.notes = s.notes;
  return device::to_json(inventory);
}

double rounded(double value) noexcept {
  constexpr double kTooLarge = 1e12;  // has no such places to begin with
  if (!(std::abs(value) < kTooLarge)) return value;
  const double places = std::abs(value) < 1 ? 1e6 : 1e3;
  return std::round(value * places) / places;
}

void round_numbers(Json& json) {
  if (json.is_number_float()) json = rounded(json.get<double>());
  if (json.is_structured())
    for (auto& part : json) round_numbers(part);
}

std::string to_text(Json json) {
  round_numbers(json);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace sluice::serve

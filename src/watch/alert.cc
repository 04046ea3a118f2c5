#include "watch/alert.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace sluice::watch {

namespace {

using device::Scope;

constexpr std::array<std::string_view, 6> kConditions{"above",         "below",     "drops_percent",
                                                      "rises_percent", "increases", "grows"};

constexpr DerivedMetric kDerived[] = {
    {"memory_percent", "percent", Scope::gpu, "memory in use, of its total"},
    {"health", "", Scope::gpu, "0 healthy, 1 on probation, 2 degraded, 3 lost"},
    {"lost", "flag", Scope::gpu, "1 while the GPU is lost"},
    {"degraded", "flag", Scope::gpu, "1 while the GPU is degraded"},
    {"ghost_utilization", "flag", Scope::gpu, "1 while utilization is stuck without a process"},
    {"sample_age", "seconds", Scope::gpu, "since the driver last answered for it"},
    {"xid_hardware", "", Scope::gpu, "XIDs that ask for a reset, of the last 10 minutes"},
    {"xid_application", "", Scope::gpu, "XIDs of the last 10 minutes that a program caused"},
    {"xid_notice", "", Scope::gpu, "other XIDs of the last 10 minutes"},
    {"throttled", "flag", Scope::gpu, "1 while heat or a power brake holds the clock back"},
    {"host_memory_percent", "percent", Scope::cpu, "memory in use, of what we may use"},
    {"noticeable_p50", "milliseconds", Scope::server, "request_p50, or 5 ms when that is less"},
    {"driver_down", "flag", Scope::server, "1 while a driver is installed and does not start"},
    {"sampler_down", "flag", Scope::server, "1 while the sampler process does not answer"},
    {"sampler_interval_scale", "", Scope::server, "factor on the sampling intervals"},
    {"history_down", "flag", Scope::server, "1 while history cannot be written to disk"},
    {"leases_damaged", "flag", Scope::server, "1 until damage of the leases on disk was read"},
    {"leases_down", "flag", Scope::server, "1 while no lease can be stored"},
    {"lease_memory", "bytes", Scope::owner, "what the processes of a lease's holder really have"},
    {"pool_memory", "bytes", Scope::owner, "that a memory pool of this program holds"},
};

const DerivedMetric* find_derived(std::string_view name) noexcept {
  const auto it = std::ranges::find(kDerived, name, &DerivedMetric::name);
  return it == std::end(kDerived) ? nullptr : it;
}

struct Symbol {
  std::string_view unit, symbol;
};
constexpr Symbol kSymbols[] = {
    {"percent", " %"},
    {"celsius", " C"},
    {"watts", " W"},
    {"joules", " J"},
    {"megahertz", " MHz"},
    {"mhz", " MHz"},
    {"hertz", " Hz"},
    {"milliseconds", " ms"},
    {"per_second", " per second"},
    {"requests_per_second", " per second"},
    {"flag", ""},
    {"", ""},
};

std::string number(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return fmt::format("{:.0f}", value);
  return std::abs(value) < 1 ? fmt::format("{:.3g}", value) : fmt::format("{:.1f}", value);
}

Json time_or_null(const std::optional<WallTime>& t) { return t ? Json(iso_time(*t)) : Json(); }
Json ms_or_null(const std::optional<WallTime>& t) { return t ? Json(unix_ms(*t)) : Json(); }

}  // namespace

std::span<const std::string_view> conditions() noexcept { return kConditions; }
std::span<const DerivedMetric> derived_metrics() noexcept { return kDerived; }

std::string_view unit_of(std::string_view metric) noexcept {
  if (const auto* derived = find_derived(metric)) return derived->unit;
  const auto known = device::find_metric(metric);
  return known ? device::info(*known).unit : "";
}

std::optional<Scope> scope_of(std::string_view metric) noexcept {
  if (const auto* derived = find_derived(metric)) return derived->scope;
  const auto known = device::find_metric(metric);
  return known ? std::optional(device::info(*known).scope) : std::nullopt;
}

std::string_view to_string(Severity severity) noexcept {
  switch (severity) {
    case Severity::info: return "info";
    case Severity::warning: return "warning";
    case Severity::critical: return "critical";
  }
  return "unknown";
}

std::optional<Severity> find_severity(std::string_view name) noexcept {
  for (const auto s : {Severity::info, Severity::warning, Severity::critical})
    if (to_string(s) == name) return s;
  return std::nullopt;
}

std::string with_unit(double value, std::string_view unit) {
  if (unit == "bytes" && value >= 0 && value < 1e18)
    return human_bytes(static_cast<std::uint64_t>(value));
  if (unit == "seconds" && value >= 0) return human_duration(value);
  const auto it = std::ranges::find(kSymbols, unit, &Symbol::unit);
  if (it != std::end(kSymbols)) return number(value) + std::string(it->symbol);
  return number(value) + " " + std::string(unit);
}

std::string iso_time(WallTime t) {
  const std::int64_t ms = unix_ms(t);
  const std::int64_t second = ms >= 0 ? ms / 1000 : (ms - 999) / 1000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(static_cast<std::time_t>(second)),
                     ms - second * 1000);
}

Json to_json(const Alert& a) {
  return Json{{"id", a.id},
              {"rule", a.rule},
              {"device", a.device},
              {"device_name", a.device_name},
              {"severity", to_string(a.severity)},
              {"value", a.value},
              {"threshold", a.threshold},
              {"unit", a.unit},
              {"summary", a.summary},
              {"cause", a.cause},
              {"fix", a.fix},
              {"since", iso_time(a.since)},
              {"since_ms", unix_ms(a.since)},
              {"resolved", time_or_null(a.resolved)},
              {"resolved_ms", ms_or_null(a.resolved)},
              {"resolved_because", a.resolved_because},
              {"silenced_until", time_or_null(a.silenced_until)},
              {"silenced_until_ms", ms_or_null(a.silenced_until)}};
}

std::optional<Alert> alert_from_json(const Json& json) try {
  const auto time = [&](const char* key) -> std::optional<WallTime> {
    if (!json.contains(key) || json[key].is_null()) return std::nullopt;
    return WallTime(std::chrono::milliseconds(json[key].get<std::int64_t>()));
  };
  Alert a;
  a.id = json.at("id");
  a.rule = json.at("rule");
  a.device = json.at("device");
  a.device_name = json.at("device_name");
  a.severity = find_severity(json.at("severity").get<std::string>()).value_or(Severity::warning);
  a.value = json.at("value");
  a.threshold = json.at("threshold");
  a.unit = json.at("unit");
  a.summary = json.at("summary");
  a.cause = json.at("cause");
  a.fix = json.at("fix");
  a.since = time("since_ms").value_or(WallTime{});
  a.resolved = time("resolved_ms");
  a.resolved_because = json.at("resolved_because");
  a.silenced_until = time("silenced_until_ms");
  return a;
} catch (const Json::exception&) {
  return std::nullopt;
}

}  // namespace sluice::watch

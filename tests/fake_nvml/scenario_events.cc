#include "scenario_events.h"

#include <algorithm>
#include <span>

#include "base/nearest.h"

namespace sluice::fake {

namespace {

template <class T>
struct Named {
  std::string_view name;
  T value;
};

constexpr Named<EventType> kTypes[] = {
    {"xid", EventType::xid},
    {"ecc", EventType::ecc},
    {"rows", EventType::rows},
    {"retired_pages", EventType::retired_pages},
    {"throttle", EventType::throttle},
    {"lost", EventType::lost},
    {"hang", EventType::hang},
    {"slow", EventType::slow},
    {"fail", EventType::fail},
    {"ghost", EventType::ghost},
    {"canary", EventType::canary},
    {"recovery", EventType::recovery},
    {"link_down", EventType::link_down},
    {"nvlink_errors", EventType::nvlink_errors},
    {"pcie_replays", EventType::pcie_replays},
};

constexpr Named<std::uint64_t> kReasons[] = {
    {"idle", nvml::throttle::kIdle},
    {"application_clocks", nvml::throttle::kApplicationClocks},
    {"power_cap", nvml::throttle::kPowerCap},
    {"hw_slowdown", nvml::throttle::kHwSlowdown},
    {"sw_thermal", nvml::throttle::kSwThermal},
    {"hw_thermal", nvml::throttle::kHwThermal},
    {"power_brake", nvml::throttle::kPowerBrake},
};

constexpr Named<nvml::Return> kReturns[] = {
    {"SUCCESS", nvml::Return::success},
    {"UNINITIALIZED", nvml::Return::uninitialized},
    {"INVALID_ARGUMENT", nvml::Return::invalid_argument},
    {"NOT_SUPPORTED", nvml::Return::not_supported},
    {"NO_PERMISSION", nvml::Return::no_permission},
    {"NOT_FOUND", nvml::Return::not_found},
    {"INSUFFICIENT_SIZE", nvml::Return::insufficient_size},
    {"INSUFFICIENT_POWER", nvml::Return::insufficient_power},
    {"DRIVER_NOT_LOADED", nvml::Return::driver_not_loaded},
    {"TIMEOUT", nvml::Return::timeout},
    {"IRQ_ISSUE", nvml::Return::irq_issue},
    {"FUNCTION_NOT_FOUND", nvml::Return::function_not_found},
    {"CORRUPTED_INFOROM", nvml::Return::corrupted_inforom},
    {"GPU_IS_LOST", nvml::Return::gpu_is_lost},
    {"RESET_REQUIRED", nvml::Return::reset_required},
    {"OPERATING_SYSTEM", nvml::Return::operating_system},
    {"LIB_RM_VERSION_MISMATCH", nvml::Return::lib_rm_version_mismatch},
    {"IN_USE", nvml::Return::in_use},
    {"MEMORY", nvml::Return::memory},
    {"NO_DATA", nvml::Return::no_data},
    {"ARGUMENT_VERSION_MISMATCH", nvml::Return::argument_version_mismatch},
    {"DEPRECATED", nvml::Return::deprecated},
    {"NOT_READY", nvml::Return::not_ready},
    {"UNKNOWN", nvml::Return::unknown},
};

template <class T>
T named(std::span<const Named<T>> table, const std::string& name, const std::string& where) {
  std::vector<std::string_view> known;
  for (const auto& row : table) {
    if (row.name == name) return row.value;
    known.push_back(row.name);
  }
  complain(where, "'" + name + "' is not known" + did_you_mean(name, known));
}

// The keys that only some types have.
void read_details(Object& in, Event& e) {
  const auto counter = [&](const char* key) { return in.integer(key, 0, 0, 1'000'000); };
  switch (e.type) {
    case EventType::xid: e.code = static_cast<unsigned>(in.integer("code", 31, 1, 9999)); break;
    case EventType::rows:
      e.pending = in.boolean("pending", false);
      e.failed = in.boolean("failed", false);
      [[fallthrough]];
    case EventType::ecc:
      e.corrected = counter("corrected");
      e.uncorrected = counter("uncorrected");
      break;
    case EventType::retired_pages:
    case EventType::nvlink_errors:
    case EventType::pcie_replays: e.count = counter("count"); break;
    case EventType::throttle:
      for (const auto& reason : in.texts("reasons"))
        e.bits |= named<std::uint64_t>(kReasons, reason, in.where("reasons"));
      e.clock_factor = in.number("clock_factor", 1, 0.05, 1);
      e.temperature = in.number("temperature", -40, 200);
      break;
    case EventType::lost: e.hidden_after_s = in.number("hidden_after_s", 1e18, 0, 1e18); break;
    case EventType::slow:
    case EventType::hang:
    case EventType::fail:
      e.call = in.text("call", "*");
      e.seconds = in.number("seconds", 3600, 0, 1e6);
      e.error = return_code(in.text("error", "UNKNOWN"), in.where("error"));
      e.after_calls = counter("after_calls");
      break;
    case EventType::canary: e.passes = in.boolean("passes", false); break;
    case EventType::recovery: e.action = static_cast<int>(in.integer("action", 1, 0, 7)); break;
    case EventType::link_down:
      e.link = static_cast<unsigned>(in.integer("link", 0, 0, nvml::kMaxNvLinks));
      break;
    case EventType::ghost: break;
  }
}

}  // namespace

nvml::Return return_code(const std::string& name, const std::string& where) {
  return named<nvml::Return>(kReturns, name, where);
}

When read_when(Object& in) {
  When when;
  when.at_s = in.number("at_s", 0, 0, 1e9);
  when.until_s = in.number("until_s", when.until_s, 0, 1e18);
  when.repeat_every_s = in.number("repeat_every_s", 0, 0.001, 1e9);
  when.times = in.integer("times", when.times, 1, 1'000'000'000);
  if (when.until_s <= when.at_s) complain(in.where("until_s"), "must be after at_s");
  return when;
}

Event read_event(Object& in) {
  Event e{};
  e.type = named<EventType>(kTypes, in.text("type", ""), in.where("type"));
  e.when = read_when(in);
  read_details(in, e);
  in.finish();
  return e;
}

}  // namespace sluice::fake

#include "device/tune/tune.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace sluice::device {

namespace {

constexpr double kSameWatts = 0.5;  // drivers keep milliwatts and round

bool same(double a, double b) { return std::abs(a - b) <= kSameWatts; }

std::string watts(double w) { return fmt::format("{:g} W", std::round(w * 10) / 10); }

std::string words(ClockPair clocks) {
  return clocks == ClockPair{}
             ? "chosen by the driver"
             : fmt::format("memory {} MHz, SM {} MHz", clocks.memory_mhz, clocks.sm_mhz);
}

std::string on_off(bool on) { return on ? "on" : "off"; }

void plan_persistence(const Tuning& current, const Tuning& target, TunePlan& plan) {
  if (!target.persistence) return;
  if (!current.persistence) {
    plan.problems.push_back("persistence mode: this GPU or driver does not have it");
  } else if (*current.persistence != *target.persistence) {
    plan.from.persistence = current.persistence;
    plan.to.persistence = target.persistence;
  }
}

void plan_power(const Tuning& current, const Tuning& target, const TuneLimits& limits,
                TunePlan& plan) {
  if (!target.power_limit_w) return;
  const double w = *target.power_limit_w;
  if (!current.power_limit_w) {
    plan.problems.push_back("power limit: this GPU does not have one that can be set");
  } else if (!limits.min_w || !limits.max_w) {
    plan.problems.push_back("power limit: this GPU does not report its allowed range");
  } else if (!(w >= *limits.min_w - kSameWatts && w <= *limits.max_w + kSameWatts)) {
    plan.problems.push_back(fmt::format("power limit {}: allowed are {} to {}", watts(w),
                                        watts(*limits.min_w), watts(*limits.max_w)));
  } else if (!same(w, *current.power_limit_w)) {
    plan.from.power_limit_w = current.power_limit_w;
    plan.to.power_limit_w = w;
  }
}

std::string nearest_to(unsigned target, const std::vector<unsigned>& highest_first) {
  const auto below =
      std::ranges::find_if(highest_first, [=](unsigned mhz) { return mhz < target; });
  if (below == highest_first.begin()) return fmt::format("the nearest is {}", *below);
  if (below == highest_first.end()) return fmt::format("the nearest is {}", highest_first.back());
  return fmt::format("the nearest are {} and {}", *below, *(below - 1));
}

// Empty when the card can run at these clocks.
std::string clock_problem(ClockPair target, const TuneLimits& limits) {
  if (target == ClockPair{}) return {};
  if (limits.clocks.empty()) return "clocks: this GPU does not let its clocks be set";
  std::vector<unsigned> memory;
  for (const auto& [mhz, sm] : limits.clocks) {
    memory.push_back(mhz);
    if (mhz != target.memory_mhz) continue;
    if (std::ranges::find(sm, target.sm_mhz) != sm.end()) return {};
    if (sm.empty()) return fmt::format("memory clock {} MHz has no SM clocks", mhz);
    return fmt::format("SM clock {} MHz: allowed are steps from {} to {} MHz; {}", target.sm_mhz,
                       sm.back(), sm.front(), nearest_to(target.sm_mhz, sm));
  }
  return fmt::format("memory clock {} MHz: allowed are {} MHz", target.memory_mhz,
                     fmt::join(memory, ", "));
}

void plan_clocks(const Tuning& current, const Tuning& target, const TuneLimits& limits,
                 TunePlan& plan) {
  if (!target.clocks) return;
  if (auto problem = clock_problem(*target.clocks, limits); !problem.empty()) {
    plan.problems.push_back(std::move(problem));
  } else if (!current.clocks) {
    plan.problems.push_back("clocks: this GPU does not let its clocks be set");
  } else if (*current.clocks != *target.clocks || !limits.clocks_readable) {
    plan.from.clocks = current.clocks;
    plan.to.clocks = target.clocks;
  }
}

std::string refused(std::string_view setting, nvml::Return code) {
  if (code == nvml::Return::no_permission)
    return fmt::format("{}: no permission; run it again with sudo", setting);
  return fmt::format("{}: {}", setting, nvml::describe(code));
}

// Sets one knob and reads it back; the reason it failed, or "".
std::string set_persistence_checked(Knobs& knobs, bool on) {
  if (const auto code = knobs.set_persistence(on); code != nvml::Return::success)
    return refused("persistence mode", code);
  const auto now = knobs.read().persistence;
  if (now == on) return {};
  return fmt::format("persistence mode was set {} but reads {}", on_off(on),
                     now ? on_off(*now) : "nothing");
}

std::string set_power_checked(Knobs& knobs, double w) {
  if (const auto code = knobs.set_power_limit(w); code != nvml::Return::success)
    return refused("power limit", code);
  const auto now = knobs.read().power_limit_w;
  if (now && same(*now, w)) return {};
  return fmt::format("power limit was set to {} but reads {}", watts(w),
                     now ? watts(*now) : "nothing");
}

std::string set_clocks_checked(Knobs& knobs, ClockPair clocks) {
  if (const auto code = knobs.set_clocks(clocks); code != nvml::Return::success)
    return refused("clocks", code);
  const auto now = knobs.read().clocks;
  if (now == clocks) return {};
  return fmt::format("clocks were set to {} but read {}", words(clocks),
                     now ? words(*now) : "nothing");
}

// Applies the settings in `to`. `done` gets each attempted one, so that a failed step is undone
// too.
std::string set_all(Knobs& knobs, const Tuning& to, Tuning& done) {
  std::string problem;
  const auto persistence = [&] {
    done.persistence = to.persistence;
    problem = set_persistence_checked(knobs, *to.persistence);
  };
  if (to.persistence == true) persistence();
  if (problem.empty() && to.power_limit_w) {
    done.power_limit_w = to.power_limit_w;
    problem = set_power_checked(knobs, *to.power_limit_w);
  }
  if (problem.empty() && to.clocks) {
    done.clocks = to.clocks;
    problem = set_clocks_checked(knobs, *to.clocks);
  }
  if (problem.empty() && to.persistence == false) persistence();
  return problem;
}

// The values of `from` for every setting that `done` has.
Tuning undo_of(const Tuning& from, const Tuning& done) {
  Tuning back;
  if (done.persistence) back.persistence = from.persistence;
  if (done.power_limit_w) back.power_limit_w = from.power_limit_w;
  if (done.clocks) back.clocks = from.clocks;
  return back;
}

bool matches(const Tuning& now, const Tuning& target) {
  return (!target.persistence || now.persistence == target.persistence) &&
         (!target.power_limit_w ||
          (now.power_limit_w && same(*now.power_limit_w, *target.power_limit_w))) &&
         (!target.clocks || now.clocks == target.clocks);
}

}  // namespace

TunePlan plan_tuning(const Tuning& current, const Tuning& target, const TuneLimits& limits) {
  TunePlan plan;
  plan_persistence(current, target, plan);
  plan_power(current, target, limits, plan);
  plan_clocks(current, target, limits, plan);
  const bool keeps = plan.to.persistence.value_or(current.persistence.value_or(true));
  if (!keeps && (plan.to.power_limit_w || plan.to.clocks))
    plan.warnings.push_back(
        "persistence mode is off: the driver forgets this when the last program closes the GPU; "
        "add --persistence on");
  return plan;
}

std::vector<TuneStep> steps(const TunePlan& plan) {
  std::vector<TuneStep> list;
  const auto persistence = [&] {
    list.push_back(
        {"persistence mode", on_off(*plan.from.persistence), on_off(*plan.to.persistence)});
  };
  if (plan.to.persistence == true) persistence();
  if (plan.to.power_limit_w)
    list.push_back({"power limit", watts(*plan.from.power_limit_w), watts(*plan.to.power_limit_w)});
  if (plan.to.clocks) list.push_back({"clocks", words(*plan.from.clocks), words(*plan.to.clocks)});
  if (plan.to.persistence == false) persistence();
  return list;
}

TuneOutcome apply(Knobs& knobs, const TunePlan& plan) {
  require(plan.problems.empty(), "a plan with problems must not be applied");
  TuneOutcome outcome;
  Tuning done;
  outcome.problem = set_all(knobs, plan.to, done);
  outcome.done = outcome.problem.empty();
  if (outcome.done) return outcome;
  const auto back = undo_of(plan.from, done);
  Tuning ignored;
  set_all(knobs, back, ignored);
  // Compares the present settings, not the return codes: a driver that refuses every change has
  // changed nothing.
  outcome.rolled_back = matches(knobs.read(), back);
  return outcome;
}

Json to_json(const Tuning& tuning) {
  Json json = Json::object();
  if (tuning.persistence) json["persistence"] = *tuning.persistence;
  if (tuning.power_limit_w) json["power_limit_w"] = *tuning.power_limit_w;
  if (tuning.clocks)
    json["clocks"] = {{"memory_mhz", tuning.clocks->memory_mhz}, {"sm_mhz", tuning.clocks->sm_mhz}};
  return json;
}

Tuning tuning_from_json(const Json& json) try {
  Tuning tuning;
  if (json.contains("persistence")) tuning.persistence = json.at("persistence").get<bool>();
  if (json.contains("power_limit_w")) tuning.power_limit_w = json.at("power_limit_w").get<double>();
  if (json.contains("clocks"))
    tuning.clocks = ClockPair{json.at("clocks").at("memory_mhz").get<unsigned>(),
                              json.at("clocks").at("sm_mhz").get<unsigned>()};
  return tuning;
} catch (const nlohmann::json::exception& e) {
  throw Error(Code::invalid_argument, std::string("not a tuning record: ") + e.what());
}

}  // namespace sluice::device

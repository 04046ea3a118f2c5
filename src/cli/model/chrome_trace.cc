#include "cli/model/chrome_trace.h"

#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"

namespace sluice::cli {
namespace {

using Lane = engine::StepTime::Lane;

int number(Lane lane) { return 1 + static_cast<int>(lane); }

Json name(std::string_view what, std::string_view as, int lane) {
  return {{"name", what}, {"ph", "M"}, {"pid", 1}, {"tid", lane}, {"args", {{"name", as}}}};
}

Json event(const engine::StepTime& step) {
  Json args{{"kernel", step.kernel}};
  if (step.node != nullptr) args["operator"] = step.node->op;
  return {{"name", step.node == nullptr ? std::string(step.kernel) : engine::name_of(*step.node)},
          {"cat", step.node == nullptr ? "copy" : step.node->op},
          {"ph", "X"},
          {"ts", step.begin_us},
          {"dur", step.us},
          {"pid", 1},
          {"tid", number(step.lane)},
          {"args", std::move(args)}};
}

}  // namespace

std::string chrome_trace(std::string_view process, std::string_view cpu,
                         std::span<const engine::StepTime> steps) {
  std::set<Lane> lanes;
  for (const engine::StepTime& step : steps) lanes.insert(step.lane);
  Json events = Json::array({name("process_name", process, 1)});
  for (const Lane lane : lanes)
    events.push_back(name("thread_name",
                          lane == Lane::cpu      ? cpu
                          : lane == Lane::stream ? "CUDA stream"
                                                 : "CUDA copies",
                          number(lane)));
  for (const engine::StepTime& step : steps) events.push_back(event(step));
  const Json trace{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
  return trace.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace sluice::cli

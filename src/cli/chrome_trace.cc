#include "cli/chrome_trace.h"

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace sluice::cli {

std::string chrome_trace(std::string_view process, std::string_view lane,
                         std::span<const engine::StepTime> steps) {
  Json events = Json::array();
  const auto name = [&](std::string_view what, std::string_view as) {
    events.push_back(
        {{"name", what}, {"ph", "M"}, {"pid", 1}, {"tid", 1}, {"args", {{"name", as}}}});
  };
  name("process_name", process);
  name("thread_name", lane);
  for (const engine::StepTime& step : steps)
    events.push_back({{"name", step.node->name.empty() ? step.node->op : step.node->name},
                      {"cat", step.node->op},
                      {"ph", "X"},
                      {"ts", step.begin_us},
                      {"dur", step.us},
                      {"pid", 1},
                      {"tid", 1},
                      {"args", {{"operator", step.node->op}, {"kernel", step.kernel}}}});
  const Json trace{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
  return trace.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace sluice::cli

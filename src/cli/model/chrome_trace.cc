#include "cli/model/chrome_trace.h"

#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"

namespace sluice::cli {
namespace {

using Track = engine::StepTime::Track;

int number(Track track) { return 1 + static_cast<int>(track); }

Json name(std::string_view what, std::string_view as, int track) {
  return {{"name", what}, {"ph", "M"}, {"pid", 1}, {"tid", track}, {"args", {{"name", as}}}};
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
          {"tid", number(step.track)},
          {"args", std::move(args)}};
}

}  // namespace

std::string chrome_trace(std::string_view process, std::string_view cpu,
                         std::span<const engine::StepTime> steps) {
  std::set<Track> tracks;
  for (const engine::StepTime& step : steps) tracks.insert(step.track);
  Json events = Json::array({name("process_name", process, 1)});
  for (const Track track : tracks)
    events.push_back(name("thread_name",
                          track == Track::cpu      ? cpu
                          : track == Track::stream ? "CUDA stream"
                                                   : "CUDA copies",
                          number(track)));
  for (const engine::StepTime& step : steps) events.push_back(event(step));
  const Json trace{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
  return trace.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace sluice::cli

#include "market/request/request.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_numbers.h"
#include "market/indicators/indicator.h"
#include "market/request/asking.h"

namespace sluice::market {

namespace {

struct Kind {
  std::string_view name;
  Json (*answer)(Asking&);
};
constexpr Kind kRequests[] = {{"option", answer_option},
                              {"risk", answer_risk},
                              {"portfolio", answer_portfolio},
                              {"montecarlo", answer_montecarlo},
                              {"backtest", answer_backtest}};

constexpr std::array<std::string_view, 3> kDevices{"auto", "cpu", "gpu"};

// With lists of numbers packed.
Json packed_answer(compute::Compute& compute, std::string_view what, const Json& request,
                   const RequestLimits& limits) {
  Asking asking{compute, limits, Fields(request), compute::Where::automatic, false};
  asking.where = *compute::where_from(kDevices[asking.fields.one_of("device", kDevices, 0)]);
  compute.require_device(asking.where);
  asking.explain = asking.fields.flag("explain", false);
  for (const Kind& kind : kRequests)
    if (kind.name == what) return kind.answer(asking);
  return answer_indicator(asking, what);
}

}  // namespace

void Asking::check_work(double work, std::string_view names) const {
  require(work <= limits.most_work,
          fmt::format("{} ask for {:.3g} steps; this server takes at most {:.3g} in one request",
                      names, work, limits.most_work));
}

void Asking::tell(Json& to, const compute::Outcome& outcome) const {
  const bool in_silence = where == compute::Where::gpu && outcome.items_on_gpu == 0;
  if (!explain && !in_silence) return;
  Json ran = {{"on", outcome.items_on_gpu > 0 ? "gpu" : "cpu"},
              {"reason", outcome.choice.reason},
              {"seconds", outcome.seconds}};
  if (!outcome.fallback.empty()) ran["fallback"] = outcome.fallback;
  to["ran"] = std::move(ran);
}

Json list_of(std::span<const double> values) {
  return values.empty() ? Json::array() : packed(values);
}

void add_member(Json& object, std::string name, Json value) {
  object.get_ref<Json::object_t&>().emplace_back(std::move(name), std::move(value));
}

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json answer(compute::Compute& compute, std::string_view what, const Json& request,
            const RequestLimits& limits) {
  return unpacked(packed_answer(compute, what, request, limits));
}

std::string answer_text(compute::Compute& compute, std::string_view what, std::string_view body,
                        const RequestLimits& limits) {
  const Json request =
      parse_json_object(body, "the body", R"({"close": [1, 2, 3]})", NumberLists::packed);
  std::string text;
  write_json(packed_answer(compute, what, request, limits), text);
  return text;
}

Json indicator_list() {
  Json list = Json::array();
  for (const Indicator& one : indicators()) {
    Json inputs = Json::array(), parameters = Json::array();
    for (const Input input : one.inputs) inputs.push_back(to_string(input));
    for (const Parameter& p : one.parameters)
      parameters.push_back({{"name", p.name},
                            {"default", p.standard},
                            {"least", p.least},
                            {"most", p.most},
                            {"whole", p.whole},
                            {"help", p.help}});
    list.push_back({{"name", one.name},
                    {"summary", one.summary},
                    {"group", one.group},
                    {"inputs", std::move(inputs)},
                    {"any_price", one.any_price},
                    {"parameters", std::move(parameters)},
                    {"outputs", one.outputs}});
  }
  return list;
}

}  // namespace sluice::market

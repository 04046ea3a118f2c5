#include "market/request/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/cancellation.h"
#include "base/error.h"
#include "base/json_numbers.h"
#include "base/printable.h"
#include "market/indicators/indicator.h"
#include "market/request/request_context.h"

namespace sluice::market {

namespace {

struct RequestKind {
  std::string_view name;
  Json (*answer)(RequestContext&);
};
constexpr RequestKind kRequests[] = {{"option", answer_option},
                                     {"risk", answer_risk},
                                     {"portfolio", answer_portfolio},
                                     {"montecarlo", answer_montecarlo},
                                     {"backtest", answer_backtest}};

constexpr std::array<std::string_view, 3> kDevices{"auto", "cpu", "gpu"};

// Names come back in answers, some of them many times: those of the assets with each point of a
// frontier.
constexpr std::size_t kMaxNameBytes = 256;

void check_name(std::string_view field, std::string_view name) {
  if (name.size() <= kMaxNameBytes) return;
  throw Error(Code::invalid_argument,
              fmt::format("{} has a name or text of {} bytes, {}; at most {} are allowed",
                          in_quotes(field), name.size(), in_quotes(name), kMaxNameBytes));
}

void check_names(std::string_view field, const Json& json) {
  if (json.is_string()) return check_name(field, json.get_ref<const std::string&>());
  if (is_packed(json) || !json.is_structured()) return;
  throw_if_cancelled();
  if (json.is_array()) {
    for (const Json& value : json) check_names(field, value);
    return;
  }
  for (const auto& [name, value] : json.get_ref<const Json::object_t&>()) {
    check_name(field, name);
    check_names(field, value);
  }
}

// Checks all names of a request in one place, for every kind of request. Lists of values of a
// strategy's parameters, "5,10,20", are no names and are not checked.
void check_names(const Json& request) {
  for (const auto& [name, value] : request.get_ref<const Json::object_t&>()) {
    check_name("the request", name);
    if (name != "parameters") check_names(name, value);
  }
}

// Adds to the memory that is charged already.
void add_charge(MemoryBudget::Charge* charge, double bytes, std::string_view names) {
  constexpr double kMaxCharge = 1e18;  // of which no budget has as much
  if (charge == nullptr) return;
  const double all = std::min(kMaxCharge, static_cast<double>(charge->bytes()) + bytes);
  charge->hold(static_cast<std::uint64_t>(all), fmt::format("{} need", names));
}

// Releases the additional charge of the work at the end of the scope.
class ScopedCharge {
 public:
  explicit ScopedCharge(MemoryBudget::Charge* charge)
      : charge_(charge), before_(charge == nullptr ? 0 : charge->bytes()) {}
  ~ScopedCharge() {
    if (charge_ != nullptr) (void)charge_->resize(before_);  // never more than it is
  }
  ScopedCharge(const ScopedCharge&) = delete;
  ScopedCharge& operator=(const ScopedCharge&) = delete;

 private:
  MemoryBudget::Charge* const charge_;
  const std::uint64_t before_;
};

RequestContext make_context(compute::Compute& compute, const Json& request,
                            const RequestLimits& limits) {
  RequestContext context{compute, limits, Fields(request), compute::DevicePreference::automatic,
                         false};
  check_names(request);
  return context;
}

// The answer with packed lists of numbers.
Json packed_answer(RequestContext& context, std::string_view what) {
  context.device =
      *compute::device_preference_from(kDevices[context.fields.one_of("device", kDevices, 0)]);
  context.compute.require_device(context.device);
  context.explain = context.fields.flag("explain", false);
  for (const RequestKind& kind : kRequests)
    if (kind.name == what) return kind.answer(context);
  return answer_indicator(context, what);
}

}  // namespace

TooMuchWork::TooMuchWork(double work, std::string what, double max_work)
    : Error(Code::invalid_argument,
            fmt::format(
                "{} ask for {:.3g} work units, about {:.3g} s; this server takes at most {:.3g} "
                "in one request: ask for less of them",
                what, work, work / kWorkUnitsPerSecond, max_work)),
      work_(work),
      fields_(std::move(what)) {}

void RequestContext::check_work(double work, std::string_view names) const {
  if (!(work <= limits.max_work)) throw TooMuchWork(work, std::string(names), limits.max_work);
}

void RequestContext::charge(double bytes, std::string_view names) const {
  add_charge(limits.memory, bytes, names);
}

void RequestContext::report_run(Json& to, const compute::Outcome& outcome) const {
  const bool in_silence = device == compute::DevicePreference::gpu && outcome.items_on_gpu == 0;
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

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json answer(compute::Compute& compute, std::string_view what, const Json& request,
            const RequestLimits& limits) {
  const ScopedCharge charged(limits.memory);
  RequestContext context = make_context(compute, request, limits);
  return unpacked(packed_answer(context, what));
}

JsonText answer_body(compute::Compute& compute, std::string_view what, std::string_view body,
                     const RequestLimits& limits) {
  const ScopedCharge charged(limits.memory);
  add_charge(limits.memory, static_cast<double>(parsed_size(body)), "so many values");
  const Json request =
      parse_json_object(body, "the body", R"({"close": [1, 2, 3]})", NumberLists::packed);
  RequestContext context = make_context(compute, request, limits);
  return JsonText(packed_answer(context, what));
}

std::string answer_text(compute::Compute& compute, std::string_view what, std::string_view body,
                        const RequestLimits& limits) {
  return to_text(answer_body(compute, what, body, limits));
}

Json indicator_list() {
  Json list = Json::array();
  for (const Indicator& one : indicators()) {
    Json inputs = Json::array(), parameters = Json::array();
    for (const Input input : one.inputs) inputs.push_back(to_string(input));
    for (const Parameter& p : one.parameters)
      parameters.push_back({{"name", p.name},
                            {"default", p.default_value},
                            {"min", p.min},
                            {"max", p.max},
                            {"integer", p.integer},
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

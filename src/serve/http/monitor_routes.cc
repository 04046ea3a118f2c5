// The routes of the monitor: state, metrics, history, alerts, events and the dashboard.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/nearest.h"
#include "serve/http/route_entry.h"
#include "serve/page/asset.h"

namespace sluice::serve::http {

namespace {

constexpr std::string_view kPrometheus = "text/plain; version=0.0.4; charset=utf-8";
constexpr std::string_view kEventStream = "text/event-stream; charset=utf-8";
constexpr double kMaxSilence_s = 366 * 86400.0;
constexpr std::size_t kBytesOfPoint = 200;   // while its answer is made
constexpr std::size_t kMaxValues = 100'000;  // of an answer about history: some 3 MB

Response health(Service& s, const RouteContext&) { return json_text(s.health()); }

Response live(Service&, const RouteContext&) { return json_text(R"({"live":true})"); }

Response ready(Service& s, const RouteContext&) {
  const bool is = s.ready();
  auto made = json_text(is ? R"({"ready":true})" : R"({"ready":false})");
  if (!is) {
    made.status = 503;
    made.headers.emplace_back("Retry-After", "1");
  }
  return made;
}

Response gpu_health(Service& s, const RouteContext&) { return json_text(s.gpu_health()); }
Response gpu_memory(Service& s, const RouteContext&) { return json_text(s.gpu_memory()); }
Response performance(Service& s, const RouteContext&) { return json_text(s.performance()); }
Response state(Service& s, const RouteContext&) { return json_text(s.state()); }
Response devices(Service& s, const RouteContext&) { return json_text(s.devices()); }
Response trends(Service& s, const RouteContext&) { return json_text(s.trends()); }
Response alerts(Service& s, const RouteContext&) { return json_text(s.alerts()); }

constexpr std::string_view kMetricsParameters[] = {"labels"};
Response metrics(Service& s, const RouteContext& context) {
  const auto* labels = context.query.find("labels");
  require(labels == nullptr || *labels == "dcgm", "query parameter 'labels' can only be 'dcgm'");
  Response made;
  made.type = kPrometheus;
  made.body = s.metrics({labels != nullptr});
  return made;
}

std::vector<std::string> split_names(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const auto piece = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), piece.size() + 1));
    if (!piece.empty()) names.emplace_back(piece);
  }
  return names;
}

constexpr std::string_view kHistoryParameters[] = {"device", "metrics", "from", "to", "points"};
Response history(Service& s, const RouteContext& context) {
  const auto& parameters = context.query;
  const auto now_ms = unix_ms(std::chrono::system_clock::now());
  watch::HistoryQuery query;
  query.device = parameters.text("device", "cpu");
  query.metrics = split_names(parameters.text("metrics", ""));
  require(!query.metrics.empty(),
          "query parameter 'metrics' is missing: name one or more, "
          "separated by commas, e.g. metrics=utilization,power");
  query.from_ms = parameters.time_ms("from", -3600, now_ms);
  query.to_ms = parameters.time_ms("to", 0, now_ms);
  require(query.from_ms < query.to_ms, "query parameter 'from' must be before 'to'");
  query.points = parameters.integer("points", 600, 1, 10000);
  const auto series = std::min(query.metrics.size(), device::metrics().size());
  require(series * static_cast<std::size_t>(query.points) <= kMaxValues,
          fmt::format("{} metrics of {} points each are more than the {} values of one answer; ask "
                      "for fewer",
                      series, query.points, kMaxValues));
  MemoryBudget::Charge held;
  if (context.request.memory)
    held = context.request.memory->charge(series * static_cast<std::size_t>(query.points) *
                                          kBytesOfPoint);
  return json_text(s.history(query));
}

struct Silence {
  std::string rule, device = "*";
  double for_s = 3600;
};

std::string string_field(const Json& json, const std::string& name) {
  if (!json[name].is_string() || json[name].get_ref<const std::string&>().empty())
    throw Error(Code::invalid_argument, "'" + name + "' must be a text; \"*\" means any");
  return json[name].get<std::string>();
}

Silence silence_from(const std::string& body) {
  const auto json = parse_json_object(
      body, "the body", R"({"rule": "gpu-temperature", "device": "*", "for_s": 3600})");
  constexpr std::string_view known[] = {"rule", "device", "for_s"};
  for (const auto& [name, value] : json.items())
    if (std::ranges::find(known, name) == std::end(known))
      throw Error(Code::invalid_argument,
                  "no field is named '" + name + "'" + did_you_mean(name, known));
  Silence made;
  require(json.contains("rule"), "'rule' is missing: name an alert rule, or \"*\" for any");
  made.rule = string_field(json, "rule");
  if (json.contains("device")) made.device = string_field(json, "device");
  if (json.contains("for_s")) {
    require(json["for_s"].is_number(), "'for_s' must be a number of seconds");
    made.for_s = json["for_s"].get<double>();
  }
  require(made.for_s > 0 && made.for_s <= kMaxSilence_s,
          "'for_s' must be above 0 and at most a year in seconds");
  return made;
}

Response silence(Service& s, const RouteContext& context) {
  const auto requested = silence_from(context.request.body);
  s.silence(requested.rule, requested.device, requested.for_s);
  return json_text(to_text({{"rule", requested.rule},
                            {"device", requested.device},
                            {"for_s", requested.for_s},
                            {"silenced", true}}));
}

// The same body as POST, or query parameters: many clients send no body with DELETE.
constexpr std::string_view kUnsilenceParameters[] = {"rule", "device"};
Response unsilence(Service& s, const RouteContext& context) {
  Silence requested;
  if (context.request.body.empty()) {
    requested.rule = context.query.text("rule", "");
    requested.device = context.query.text("device", "*");
    require(!requested.rule.empty(), "'rule' is missing: name an alert rule, or \"*\" for any");
  } else {
    require(context.query.empty(), "say it in the body or in query parameters, not in both");
    requested = silence_from(context.request.body);
  }
  s.unsilence(requested.rule, requested.device);
  return json_text(
      to_text({{"rule", requested.rule}, {"device", requested.device}, {"silenced", false}}));
}

class EventStream final : public Stream {
 public:
  explicit EventStream(EventCursor cursor) : cursor_(std::move(cursor)) {}
  Instant pull(Instant now, std::string& out) override { return cursor_.pull(now, out); }

 private:
  EventCursor cursor_;
};

constexpr std::string_view kEventsParameters[] = {"interval", "last_event_id", "lease"};
Response events(Service& s, const RouteContext& context) {
  const double interval = context.query.number("interval", 1, 0, 3600);
  require(interval == 0 || interval >= 0.1,
          "query parameter 'interval' must be 0 (events only) or at least 0.1 seconds");
  const auto last = context.query.text("last_event_id", context.request.last_event_id);
  Response made;
  made.type = kEventStream;
  made.headers.emplace_back("X-Accel-Buffering", "no");  // a proxy must not collect events
  made.stream = std::make_unique<EventStream>(
      s.listen(last, interval > 0 ? std::optional(Seconds(interval)) : std::nullopt,
               context.query.text("lease", ""), context.request.peer.name()));
  return made;
}

bool already_has(const Request& request, const page::Asset& asset) {
  return request.if_none_match.find(asset.etag) != std::string::npos ||
         request.if_none_match == "*";
}

Response asset_response(const Request& request, std::string_view path) {
  const auto* asset = page::find_asset(path);
  if (asset == nullptr) {
    std::vector<std::string_view> known;
    for (const auto& a : page::assets()) known.push_back(a.path);
    return error_response(404, "not_found",
                          "no file " + std::string(path) + did_you_mean(path, known),
                          "GET / is the dashboard.");
  }
  Response made;
  made.type = asset->type;
  made.headers = {{"ETag", asset->etag},
                  {"Cache-Control", "no-cache"},  // keep it, and ask whether it is still good
                  {"Content-Security-Policy", std::string(page::kContentSecurityPolicy)},
                  {"Referrer-Policy", "no-referrer"}};
  if (already_has(request, *asset))
    made.status = 304;
  else
    made.fixed = asset->bytes;
  return made;
}

Response dashboard(Service&, const RouteContext& context) {
  return asset_response(context.request, "/");
}
Response asset(Service&, const RouteContext& context) {
  return asset_response(context.request, "/assets/" + context.request.captures.at(0));
}

constexpr auto kGet = Method::get;
constexpr int kReuse_ms = 100;

// docs/http.md describes each. Handlers that wait for the broker or the market are blocking: their
// locks may be held while a disk is waited for.
constexpr RouteEntry kMonitorRoutes[] = {
    {.method = kGet, .pattern = "/", .handler = dashboard, .any_query = true},
    {.method = kGet, .pattern = "/assets/{file...}", .handler = asset, .any_query = true},
    {.method = kGet, .pattern = "/gpu-health", .handler = gpu_health, .reuse_ms = kReuse_ms},
    {.method = kGet,
     .pattern = "/gpu-memory",
     .handler = gpu_memory,
     .execution = kBlocking,
     .reuse_ms = kReuse_ms},
    {.method = kGet, .pattern = "/health", .handler = health, .open = true, .reuse_ms = kReuse_ms},
    {.method = kGet, .pattern = "/health/live", .handler = live, .open = true},
    {.method = kGet, .pattern = "/health/ready", .handler = ready, .open = true},
    {.method = kGet,
     .pattern = "/metrics",
     .handler = metrics,
     .execution = kBlocking,
     .reuse_ms = kReuse_ms,
     .parameters = kMetricsParameters},
    {.method = kGet,
     .pattern = "/performance-metrics",
     .handler = performance,
     .reuse_ms = kReuse_ms},
    {.method = kGet, .pattern = "/v1/alerts", .handler = alerts, .execution = kBlocking},
    {.method = Method::delete_,
     .pattern = "/v1/alerts/silence",
     .handler = unsilence,
     .execution = kBlocking,
     .max_body = kSmallBody,
     .parameters = kUnsilenceParameters,
     .access = Access::admin},
    {.method = Method::post,
     .pattern = "/v1/alerts/silence",
     .handler = silence,
     .execution = kBlocking,
     .max_body = kSmallBody,
     .access = Access::admin},
    {.method = kGet, .pattern = "/v1/devices", .handler = devices, .reuse_ms = kReuse_ms},
    {.method = kGet, .pattern = "/v1/events", .handler = events, .parameters = kEventsParameters},
    {.method = kGet,
     .pattern = "/v1/history",
     .handler = history,
     .execution = kBlocking,
     .reuse_ms = kReuse_ms,
     .parameters = kHistoryParameters},
    {.method = kGet, .pattern = "/v1/state", .handler = state, .reuse_ms = kReuse_ms},
    {.method = kGet,
     .pattern = "/v1/trends",
     .handler = trends,
     .execution = kBlocking,
     .reuse_ms = kReuse_ms},
};

}  // namespace

std::span<const RouteEntry> monitor_routes() noexcept { return kMonitorRoutes; }

}  // namespace sluice::serve::http

#include "serve/http/routes.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/nearest.h"
#include "serve/http/target.h"
#include "serve/page/asset.h"

namespace sluice::serve::http {

namespace {

constexpr std::string_view kPrometheus = "text/plain; version=0.0.4; charset=utf-8";
constexpr std::string_view kEventStream = "text/event-stream; charset=utf-8";
constexpr double kLongestSilence = 366 * 86400.0;
constexpr double kFarFuture = 1e15;  // ms; beyond it a time is a slip

Response json_text(std::string text) {
  Response made;
  made.body = std::move(text);
  made.body.push_back('\n');
  return made;
}

using Answer = Response (*)(Service& service, const Request& request);

Response health(Service& s, const Request&) { return json_text(s.health()); }

Response live(Service&, const Request&) { return json_text(R"({"live":true})"); }

Response ready(Service& s, const Request&) {
  const bool is = s.ready();
  auto made = json_text(is ? R"({"ready":true})" : R"({"ready":false})");
  if (!is) made.status = 503;
  return made;
}

Response gpu_health(Service& s, const Request&) { return json_text(s.gpu_health()); }
Response gpu_memory(Service& s, const Request&) { return json_text(s.gpu_memory()); }
Response performance(Service& s, const Request&) { return json_text(s.performance()); }
Response state(Service& s, const Request&) { return json_text(s.state()); }
Response devices(Service& s, const Request&) { return json_text(s.devices()); }
Response trends(Service& s, const Request&) { return json_text(s.trends()); }
Response alerts(Service& s, const Request&) { return json_text(s.alerts()); }

Response metrics(Service& s, const Request& request) {
  const Query query(request.query());
  constexpr std::string_view known[] = {"labels"};
  query.only(known);
  const auto labels = query.text("labels", "");
  require(labels.empty() || labels == "dcgm", "query parameter 'labels' can only be 'dcgm'");
  Response made;
  made.type = kPrometheus;
  made.body = s.metrics({labels == "dcgm"});
  return made;
}

// A time in ms since 1970, or in seconds before now when it is zero or negative.
std::int64_t time_of(const Query& query, std::string_view name, double otherwise,
                     std::int64_t now_ms) {
  const double value = query.number(name, otherwise, -kFarFuture, kFarFuture);
  return value <= 0 ? now_ms + std::llround(value * 1000) : std::llround(value);
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

Response history(Service& s, const Request& request) {
  const Query query(request.query());
  constexpr std::string_view known[] = {"device", "metrics", "from", "to", "points"};
  query.only(known);
  const auto now_ms = unix_ms(std::chrono::system_clock::now());
  watch::HistoryQuery wanted;
  wanted.device = query.text("device", "cpu");
  wanted.metrics = split_names(query.text("metrics", ""));
  require(!wanted.metrics.empty(),
          "query parameter 'metrics' is missing: name one or more, "
          "separated by commas, e.g. metrics=utilization,power");
  wanted.from_ms = time_of(query, "from", -3600, now_ms);
  wanted.to_ms = time_of(query, "to", 0, now_ms);
  require(wanted.from_ms < wanted.to_ms, "query parameter 'from' must be before 'to'");
  wanted.points = static_cast<int>(query.number("points", 600, 1, 10000));
  return json_text(s.history(wanted));
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
  constexpr std::size_t kLargest = 16 << 10;
  require(body.size() <= kLargest, "the body is far larger than a silence can be");
  const auto json = Json::parse(body, nullptr, false);
  require(json.is_object(),
          "the body must be a JSON object such as "
          R"({"rule": "gpu-temperature", "device": "*", "for_s": 3600})");
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
  require(made.for_s > 0 && made.for_s <= kLongestSilence,
          "'for_s' must be above 0 and at most a year in seconds");
  return made;
}

Response silence(Service& s, const Request& request) {
  const auto wanted = silence_from(request.body);
  s.silence(wanted.rule, wanted.device, wanted.for_s);
  return json_text(to_text({{"rule", wanted.rule},
                            {"device", wanted.device},
                            {"for_s", wanted.for_s},
                            {"silenced", true}}));
}

// The same body as POST, or query parameters: many clients send no body with DELETE.
Response unsilence(Service& s, const Request& request) {
  Silence wanted;
  if (request.body.empty()) {
    const Query query(request.query());
    constexpr std::string_view known[] = {"rule", "device"};
    query.only(known);
    wanted.rule = query.text("rule", "");
    wanted.device = query.text("device", "*");
    require(!wanted.rule.empty(), "'rule' is missing: name an alert rule, or \"*\" for any");
  } else {
    wanted = silence_from(request.body);
  }
  s.unsilence(wanted.rule, wanted.device);
  return json_text(
      to_text({{"rule", wanted.rule}, {"device", wanted.device}, {"silenced", false}}));
}

class EventStream final : public Stream {
 public:
  explicit EventStream(EventCursor cursor) : cursor_(std::move(cursor)) {}
  Instant pull(Instant now, std::string& out) override { return cursor_.pull(now, out); }

 private:
  EventCursor cursor_;
};

Response events(Service& s, const Request& request) {
  const Query query(request.query());
  constexpr std::string_view known[] = {"interval", "last_event_id"};
  query.only(known);
  const double interval = query.number("interval", 1, 0, 3600);
  require(interval == 0 || interval >= 0.1,
          "query parameter 'interval' must be 0 (events only) or at least 0.1 seconds");
  const auto last = query.text("last_event_id", request.last_event_id);
  Response made;
  made.type = kEventStream;
  made.headers.emplace_back("X-Accel-Buffering", "no");  // a proxy must not collect events
  made.stream = std::make_unique<EventStream>(
      s.listen(last, interval > 0 ? std::optional(Seconds(interval)) : std::nullopt));
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

Response dashboard(Service&, const Request& request) { return asset_response(request, "/"); }
Response asset(Service&, const Request& request) {
  return asset_response(request, "/assets/" + request.captures.at(0));
}

struct Row {
  Method method;
  std::string_view pattern;
  Answer answer;
  bool open = false, blocking = false, takes_body = false;
  int reuse_ms = 0;
};

constexpr auto kGet = Method::get;
constexpr bool kOpen = true, kBlocking = true, kBody = true;
constexpr int kReuse = 100;

// Every route of the server. docs/http.md describes each.
constexpr Row kRoutes[] = {
    {kGet, "/", dashboard},
    {kGet, "/assets/{file...}", asset},
    {kGet, "/gpu-health", gpu_health, !kOpen, !kBlocking, !kBody, kReuse},
    {kGet, "/gpu-memory", gpu_memory, !kOpen, !kBlocking, !kBody, kReuse},
    {kGet, "/health", health, kOpen, !kBlocking, !kBody, kReuse},
    {kGet, "/health/live", live, kOpen},
    {kGet, "/health/ready", ready, kOpen},
    {kGet, "/metrics", metrics, !kOpen, !kBlocking, !kBody, kReuse},
    {kGet, "/performance-metrics", performance, !kOpen, !kBlocking, !kBody, kReuse},
    {kGet, "/v1/alerts", alerts, !kOpen, kBlocking},
    {Method::delete_, "/v1/alerts/silence", unsilence, !kOpen, kBlocking, kBody},
    {Method::post, "/v1/alerts/silence", silence, !kOpen, kBlocking, kBody},
    {kGet, "/v1/devices", devices, !kOpen, !kBlocking, !kBody, kReuse},
    {kGet, "/v1/events", events},
    {kGet, "/v1/history", history, !kOpen, kBlocking},
    {kGet, "/v1/state", state, !kOpen, !kBlocking, !kBody, kReuse},
    {kGet, "/v1/trends", trends, !kOpen, kBlocking},
};

}  // namespace

std::vector<Route> make_routes(Service& service) {
  std::vector<Route> routes;
  for (const auto& row : kRoutes) {
    auto handler = [&service, answer = row.answer](const Request& r) { return answer(service, r); };
    routes.push_back({row.method, row.pattern, handler, row.open, row.blocking, row.takes_body,
                      std::chrono::milliseconds(row.reuse_ms)});
  }
  return routes;
}

std::vector<std::string> route_names() {
  std::vector<std::string> names;
  for (const auto& row : kRoutes)
    names.push_back(std::string(to_string(row.method)) + " " + std::string(row.pattern));
  return names;
}

}  // namespace sluice::serve::http

#include "serve/http/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/nearest.h"
#include "serve/http/route_row.h"
#include "serve/http/target.h"
#include "serve/page/asset.h"

namespace sluice::serve::http {

namespace {

constexpr std::string_view kPrometheus = "text/plain; version=0.0.4; charset=utf-8";
constexpr std::string_view kEventStream = "text/event-stream; charset=utf-8";
constexpr double kMaxSilence_s = 366 * 86400.0;
constexpr std::size_t kBytesOfPoint = 200;   // while its answer is made
constexpr std::size_t kMaxValues = 100'000;  // of an answer about history: some 3 MB
constexpr double kFarFuture = 1e15;          // ms; beyond it a time is a slip

Response health(Service& s, const RouteContext&) { return json_text(s.health()); }

Response live(Service&, const RouteContext&) { return json_text(R"({"live":true})"); }

Response ready(Service& s, const RouteContext&) {
  const bool is = s.ready();
  auto made = json_text(is ? R"({"ready":true})" : R"({"ready":false})");
  if (!is) made.status = 503;
  return made;
}

Response gpu_health(Service& s, const RouteContext&) { return json_text(s.gpu_health()); }
Response gpu_memory(Service& s, const RouteContext&) { return json_text(s.gpu_memory()); }
Response performance(Service& s, const RouteContext&) { return json_text(s.performance()); }
Response state(Service& s, const RouteContext&) { return json_text(s.state()); }
Response devices(Service& s, const RouteContext&) { return json_text(s.devices()); }
Response trends(Service& s, const RouteContext&) { return json_text(s.trends()); }
Response alerts(Service& s, const RouteContext&) { return json_text(s.alerts()); }

constexpr std::string_view kMetricsTakes[] = {"labels"};
Response metrics(Service& s, const RouteContext& context) {
  const auto* labels = context.query.find("labels");
  require(labels == nullptr || *labels == "dcgm", "query parameter 'labels' can only be 'dcgm'");
  Response made;
  made.type = kPrometheus;
  made.body = s.metrics({labels != nullptr});
  return made;
}

// A time in ms since 1970, or in seconds before now when it is zero or negative.
std::int64_t time_of(const Query& query, std::string_view name, double default_value,
                     std::int64_t now_ms) {
  const double value = query.number(name, default_value, -kFarFuture, kFarFuture);
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

constexpr std::string_view kHistoryTakes[] = {"device", "metrics", "from", "to", "points"};
Response history(Service& s, const RouteContext& context) {
  const auto& parameters = context.query;
  const auto now_ms = unix_ms(std::chrono::system_clock::now());
  watch::HistoryQuery query;
  query.device = parameters.text("device", "cpu");
  query.metrics = split_names(parameters.text("metrics", ""));
  require(!query.metrics.empty(),
          "query parameter 'metrics' is missing: name one or more, "
          "separated by commas, e.g. metrics=utilization,power");
  query.from_ms = time_of(parameters, "from", -3600, now_ms);
  query.to_ms = time_of(parameters, "to", 0, now_ms);
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
constexpr std::string_view kUnsilenceTakes[] = {"rule", "device"};
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

constexpr std::string_view kEventsTakes[] = {"interval", "last_event_id", "lease"};
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

// Pages may be linked to and reloaded with anything behind '?'; their scripts read it.
bool is_page(const Row& row) { return row.answer == dashboard || row.answer == asset; }

constexpr auto kGet = Method::get;
constexpr int kReuse = 100;

// docs/http.md describes each. What waits for the broker or the market is blocking: their locks
// may be held while a disk is waited for.
constexpr Row kRoutes[] = {
    {kGet, "/", dashboard},
    {kGet, "/assets/{file...}", asset},
    {kGet, "/gpu-health", gpu_health, !kOpen, kAtOnce, kNoBody, kReuse},
    {kGet, "/gpu-memory", gpu_memory, !kOpen, kBlocking, kNoBody, kReuse},
    {kGet, "/health", health, kOpen, kAtOnce, kNoBody, kReuse},
    {kGet, "/health/live", live, kOpen},
    {kGet, "/health/ready", ready, kOpen},
    {kGet, "/metrics", metrics, !kOpen, kBlocking, kNoBody, kReuse, kMetricsTakes},
    {kGet, "/performance-metrics", performance, !kOpen, kAtOnce, kNoBody, kReuse},
    {kGet, "/v1/alerts", alerts, !kOpen, kBlocking},
    {Method::delete_, "/v1/alerts/silence", unsilence, !kOpen, kBlocking, kSmallBody, 0,
     kUnsilenceTakes, Access::admin},
    {Method::post,
     "/v1/alerts/silence",
     silence,
     !kOpen,
     kBlocking,
     kSmallBody,
     0,
     {},
     Access::admin},
    {kGet, "/v1/devices", devices, !kOpen, kAtOnce, kNoBody, kReuse},
    {kGet, "/v1/events", events, !kOpen, kAtOnce, kNoBody, 0, kEventsTakes},
    {kGet, "/v1/history", history, !kOpen, kBlocking, kNoBody, kReuse, kHistoryTakes},
    {kGet, "/v1/state", state, !kOpen, kAtOnce, kNoBody, kReuse},
    {kGet, "/v1/trends", trends, !kOpen, kBlocking, kNoBody, kReuse},
};

Response answer_to(Request& request, const Row& row, Service& service) {
  if (is_page(row)) return row.answer(service, {request, Query({})});
  const RouteContext context{request, Query(request.query())};
  context.query.only(row.parameters);
  return row.answer(service, context);
}

// "done", or what the answer says was wrong.
std::string result_of(const Response& response) {
  if (response.status < 400) return "done";
  const auto json = Json::parse(response.body, nullptr, false);
  const auto message = json.is_object() && json.contains("error")
                           ? json["error"].value("message", std::string())
                           : std::string();
  return std::to_string(response.status) + (message.empty() ? "" : " " + message);
}

AuditLog::Entry entry_of(const Request& request) {
  const auto& peer = request.peer;
  return {peer.name(),
          std::string(peer.key),
          peer.address,
          peer.pid,
          std::string(request.method_name()) + " " + request.target,
          request.body};
}

// Logs what administrators did, or failed to do, to the property of others, and what other users
// were refused. Ordinary use is not logged.
Response answer_audited(Request& request, const Row& row, Service& service) {
  auto entry = entry_of(request);
  const bool is_admin = request.peer.is_admin;
  try {
    const auto name = std::string(to_string(row.method)) + " " + std::string(row.pattern);
    const bool may = row.access != Access::admin || is_admin;
    auto made = may ? answer_to(request, row, service) : admin_required(request, name);
    entry.result = result_of(made);
    entry.refused = made.status == 401 || made.status == 403;
    if (entry.refused || (is_admin && !made.is_own)) service.audit(entry);
    return made;
  } catch (const std::exception& e) {
    const auto* error = dynamic_cast<const Error*>(&e);
    entry.result = error ? result_of(error_response(*error)) : std::string("500 ") + e.what();
    if (is_admin) service.audit(entry);
    throw;
  }
}

// Every route of the server.
template <class Visit>
void each_row(Visit visit) {
  for (const auto& row : kRoutes) visit(row);
  for (const auto& row : lease_rows()) visit(row);
  for (const auto& row : market_rows()) visit(row);
}

}  // namespace

Response json_text(std::string text) {
  Response made;
  made.body = std::move(text);
  made.body.push_back('\n');
  return made;
}

Response admin_required(const Request& request, std::string_view what) {
  const auto message = std::string(what) + " is for administrators";
  if (request.takes_admin_key && request.peer.key.empty()) {
    auto made = error_response(401, "admin_only", message,
                               "Send serve.admin_key as 'Authorization: Bearer KEY' or "
                               "'X-API-Key: KEY', or use the Unix socket.");
    made.headers.emplace_back("WWW-Authenticate", "Basic realm=\"Sluice\", Bearer");
    return made;
  }
  return error_response(403, "admin_only",
                        message +
                            ": over TCP it takes the admin key, over the Unix socket the "
                            "server's user or root",
                        "Ask over the Unix socket in the state folder as the server's user, or set "
                        "serve.admin_key (SLUICE_SERVE_ADMIN_KEY) and send that.");
}

std::vector<Route> make_routes(Service& service) {
  std::vector<Route> routes;
  each_row([&](const Row& row) {
    const auto answer = row.access == Access::anyone ? answer_to : answer_audited;
    auto handler = [&service, &row, answer](Request& r) { return answer(r, row, service); };
    routes.push_back({row.method, row.pattern, handler, row.open, row.execution, row.max_body,
                      std::chrono::milliseconds(row.reuse_ms)});
  });
  return routes;
}

std::vector<std::string> route_names() {
  std::vector<std::string> names;
  each_row([&](const Row& row) {
    names.push_back(std::string(to_string(row.method)) + " " + std::string(row.pattern));
  });
  return names;
}

}  // namespace sluice::serve::http

// The route table of the server is kMonitorRoutes (monitor_routes.cc), kLeaseRoutes
// (lease_routes.cc) and kMarketRoutes (market_routes.cc), joined here.
#include "serve/http/routes.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "serve/http/route_entry.h"

namespace sluice::serve::http {

namespace {

template <class Visit>
void each_route(Visit visit) {
  for (const auto table : {monitor_routes(), lease_routes(), market_routes()})
    for (const RouteEntry& entry : table) visit(entry);
}

Response answer_to(Request& request, const RouteEntry& entry, Service& service) {
  if (entry.any_query) return entry.handler(service, {request, Query({})});
  const RouteContext context{request, Query(request.query())};
  context.query.only(entry.parameters);
  return entry.handler(service, context);
}

// Returns "done", or the error that the answer names.
std::string result_of(const Response& response) {
  if (response.status < 400) return "done";
  const auto json = Json::parse(response.body, nullptr, false);
  const auto message = json.is_object() && json.contains("error")
                           ? json["error"].value("message", std::string())
                           : std::string();
  return std::to_string(response.status) + (message.empty() ? "" : " " + message);
}

AuditLog::Entry audit_entry(const Request& request) {
  const auto& peer = request.peer;
  return {peer.name(),
          std::string(peer.key),
          peer.address,
          peer.pid,
          std::string(request.method_name()) + " " + request.target,
          request.body};
}

// Logs what administrators did, or failed to do, to the property of others, and the requests of
// other users that were refused. Ordinary use is not logged.
Response answer_audited(Request& request, const RouteEntry& entry, Service& service) {
  auto record = audit_entry(request);
  const bool is_admin = request.peer.is_admin;
  try {
    const auto name = std::string(to_string(entry.method)) + " " + std::string(entry.pattern);
    const bool may = entry.access != Access::admin || is_admin;
    auto made = may ? answer_to(request, entry, service) : admin_required(request, name);
    record.result = result_of(made);
    record.refused = made.status == 401 || made.status == 403;
    if (record.refused || (is_admin && !made.is_own)) service.audit(record);
    return made;
  } catch (const std::exception& e) {
    const auto* error = dynamic_cast<const Error*>(&e);
    record.result = error ? result_of(error_response(*error)) : std::string("500 ") + e.what();
    if (is_admin) service.audit(record);
    throw;
  }
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
                            ": send the admin key (SLUICE_SERVE_ADMIN_KEY), or ask over the Unix "
                            "socket as the server's user or root",
                        "Ask over the Unix socket in the state folder as the server's user, or set "
                        "serve.admin_key (SLUICE_SERVE_ADMIN_KEY) and send that.");
}

std::vector<Route> make_routes(Service& service) {
  std::vector<Route> routes;
  each_route([&](const RouteEntry& entry) {
    const auto answer = entry.access == Access::anyone ? answer_to : answer_audited;
    auto handler = [&service, &entry, answer](Request& r) { return answer(r, entry, service); };
    routes.push_back({entry.method, entry.pattern, handler, entry.open, entry.execution,
                      entry.max_body, std::chrono::milliseconds(entry.reuse_ms),
                      entry.serves_hung_up || entry.access != Access::anyone});
  });
  return routes;
}

std::vector<std::string> route_names() {
  std::vector<std::string> names;
  each_route([&](const RouteEntry& entry) {
    names.push_back(std::string(to_string(entry.method)) + " " + std::string(entry.pattern));
  });
  return names;
}

}  // namespace sluice::serve::http

// The routes /v1/leases. The broker decides everything; this file converts bodies to values and
// refusals to statuses.
#include <atomic>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/json.h"
#include "base/nearest.h"
#include "broker/broker.h"
#include "broker/enforce/holder.h"
#include "broker/lease/idempotency.h"
#include "serve/http/route_entry.h"

namespace sluice::serve::http {

namespace {

using broker::Broker;
using broker::LeaseError;
using broker::Token;
using Outcome = broker::Ledger::Outcome;

constexpr std::string_view kListed = "GET /v1/leases lists those there are.";

Response answer_json(const broker::LeaseResponse& answer) {
  return json_text(broker::to_json(answer, Steady::now(), std::chrono::system_clock::now()).dump());
}

// 404: unknown; 410: over; 403: not the holder; 409: an older token. The last has the present
// token, because the caller has proved to be the holder.
Response lease_error_response(const LeaseError& e) {
  const auto made = [&](int status, std::string_view code, std::string_view fix) {
    auto response = error_response(status, code, e.reason(), fix);
    if (!e.current()) return response;
    auto json = Json::parse(response.body);
    json["token"] = to_string(*e.current());
    response.body = json.dump() + "\n";
    return response;
  };
  switch (e.outcome()) {
    case Outcome::unknown: return made(404, "not_found", kListed);
    case Outcome::over: return made(410, "lease_over", "Ask for a new one: POST /v1/leases.");
    case Outcome::wrong_secret:
      return made(403, "not_the_holder", "Send the token of the answer that granted it.");
    default: return made(409, "stale_token", "Go on with the token of this answer.");
  }
}

// 503 that says what becomes of leases meanwhile.
Response store_unavailable_response(const broker::StoreUnavailable& e) {
  return error_response(503, "unavailable", e.reason(),
                        "Free space on the disk of the state folder. Leases stay meanwhile, and "
                        "have up to 15 s to be renewed afterwards. Try again.");
}

// Wraps a route of one lease: its refusals become statuses.
template <RouteHandler handler>
Response of_lease(Service& s, const RouteContext& context) {
  try {
    return handler(s, context);
  } catch (const LeaseError& e) {
    return lease_error_response(e);
  } catch (const broker::StoreUnavailable& e) {
    return store_unavailable_response(e);
  } catch (const Error& e) {
    if (e.code() != Code::not_found) throw;
    return error_response(404, "not_found", e.reason(), kListed);
  }
}

// ---- bodies ----------------------------------------------------------------------

std::string shown(const std::string& text) { return std::string(broker::utf8_prefix(text, 64)); }

// An object with none but the known fields.
Json object_of(const Request& request, std::span<const std::string_view> known) {
  auto json = parse_json_object(request.body, "the body");
  for (const auto& item : json.items())
    if (std::ranges::find(known, item.key()) == known.end())
      throw Error(Code::invalid_argument, "no field is named '" + shown(item.key()) + "'" +
                                              did_you_mean(shown(item.key()), known));
  return json;
}

broker::LeaseId id_from(const std::string& text) {
  const bool is_number = !text.empty() && text.size() <= 19 &&
                         text.find_first_not_of("0123456789") == std::string::npos;
  if (!is_number)
    throw Error(Code::not_found,
                "no lease is named '" + shown(text) + "'; its lease_id is a number");
  return std::stoull(text);
}

broker::LeaseId id_of(const Request& request) { return id_from(request.captures.at(0)); }

Token token_from_text(const Request& request, std::string_view text) {
  const auto token = broker::token_from(text);
  require(token.has_value(), "'token' must be the text that came with the lease");
  require(token->id == id_of(request), "the token is of another lease than the path names");
  return *token;
}

Token token_in(const Request& request, const Json& body) {
  require(body.contains("token") && body["token"].is_string(),
          "'token' is missing: it came with the answer that granted the lease");
  return token_from_text(request, body["token"].get_ref<const std::string&>());
}

// ---- asking ------------------------------------------------------------------------

// Only a granted lease is bound to its connection: a refused client may reuse the connection.
bool binds(const broker::LeaseResponse& answer) {
  return answer.lease.id != 0 && answer.lease.request.bound &&
         answer.lease.state != broker::State::ended;
}

// A request in the queue. It leaves the queue when no client waits for the answer any more.
class Waiting final : public Pending {
 public:
  Waiting(Broker& broker, Token token) : broker_(broker), token_(token) {}
  ~Waiting() override {
    if (decided_) return;
    try {
      broker_.leave(token_);
    } catch (const std::exception&) {  // it was decided meanwhile, or its time is over
    }
  }

  bool has_update() const noexcept override { return broker_.decisions() != seen_; }
  bool blocks() const noexcept override { return true; }

  std::unique_ptr<Response> poll(Instant now, Instant& again) override {
    seen_ = broker_.decisions();
    broker::LeaseResponse answer;
    try {
      answer = broker_.status(token_);
    } catch (const broker::StoreUnavailable& e) {
      return std::make_unique<Response>(store_unavailable_response(e));
    }
    if (answer.verdict == broker::Verdict::waiting && answer.lease.state != broker::State::ended) {
      again = now + std::chrono::seconds(1);
      return nullptr;
    }
    decided_ = true;
    auto made = std::make_unique<Response>(answer_json(answer));
    made->binds = binds(answer);
    return made;
  }

 private:
  Broker& broker_;
  const Token token_;
  bool decided_ = false;
  std::atomic<std::uint64_t> seen_{0};  // of Broker::decisions(), before the last poll
};

// The process that connected, if it still runs, unless the request names a process that it was
// started by: a shell that asks through a program which ends with the answer. A connection may
// have been handed on, and the number of a process that ended may be another's by now.
broker::Holder holder_of(const broker::LeaseRequest& lease_request, const Request::Peer& peer) {
  const broker::Holder asking{.pid = peer.pid, .start_time = peer.start_time, .uid = peer.uid};
  const broker::Holder nobody{.uid = peer.uid};
  const auto named = lease_request.named_pid.value_or(peer.pid);
  if (named == 0) return nobody;
  const auto holder = broker::named_holder(named, asking, "/proc");
  require(holder || !lease_request.named_pid,
          "pid must be the process that asks over the Unix socket, or one of the same user's that "
          "it was started by; 0 names none");
  return holder.value_or(nobody);
}

// Users that cannot be distinguished must not be given each other's leases: their retries are known
// by the connection as well.
std::string key_of(const Request& request) {
  auto key = broker::keyed(*request.idempotency_key, request.body);
  if (request.peer.uid != broker::kUnmappedUid) return key;
  return std::to_string(request.connection) + ":" + key;
}

Response ask_lease(Service& s, const RouteContext& context) {
  const auto& request = context.request;
  auto lease_request = s.broker().read(request.body);
  lease_request.peer = request.peer.name();
  lease_request.holder = holder_of(lease_request, request.peer);
  lease_request.by_admin = request.peer.is_admin;
  if (lease_request.bound) lease_request.holder.connection = request.connection;
  if (request.idempotency_key) lease_request.idempotency_key = key_of(request);
  const auto answer = s.broker().request(lease_request);
  Response made;
  if (answer.verdict == broker::Verdict::waiting) {
    made.pending = std::make_unique<Waiting>(s.broker(), token_of(answer.lease));
    return made;
  }
  made = answer_json(answer);
  made.binds = binds(answer);
  return made;
}

Response request_lease(Service& s, const RouteContext& context) {
  try {
    return ask_lease(s, context);
  } catch (const broker::KeyReused& e) {
    return error_response(422, "idempotency_key_reused", e.reason(),
                          "Send the request as it was, or choose another key for a new lease.");
  } catch (const broker::StoreUnavailable& e) {
    return store_unavailable_response(e);
  } catch (const BudgetExhausted&) {
    throw;
  } catch (const Error& e) {
    if (e.code() != Code::exhausted) throw;
    return error_response(429, "exhausted", e.reason(),  // waiting alone does not help
                          "Release leases that are no longer needed; docs/leases.md (Limits) "
                          "names the settings.");
  }
}

// ---- living --------------------------------------------------------------------------

constexpr std::string_view kListParameters[] = {"limit", "cursor"};
Response list(Service& s, const RouteContext& context) {
  broker::LeasePage page;
  if (const auto* cursor = context.query.find("cursor")) {
    const auto found = broker::page_from(*cursor);
    require(found.has_value(), "query parameter 'cursor' must be the 'next' of an earlier answer");
    page = *found;
  }
  const auto max_limit = static_cast<int>(broker::LeasePage::kMaxLimit);
  page.limit = static_cast<std::size_t>(
      context.query.integer("limit", static_cast<int>(page.limit), 1, max_limit));
  return json_text(s.broker().leases_json(page).dump());
}

Response show(Service& s, const RouteContext& context) {
  return answer_json(s.broker().status(id_of(context.request)));
}

double number_in(const Json& body, const std::string& name, double low, double high) {
  if (!body.contains(name) || !body[name].is_number() || !(body[name].get<double>() >= low) ||
      !(body[name].get<double>() <= high))
    throw Error(Code::invalid_argument, "'" + name + "' must be a number from " + Json(low).dump() +
                                            " to " + Json(high).dump());
  return body[name].get<double>();
}

Response renew(Service& s, const RouteContext& context) {
  constexpr const char* kLimit = "client_limit_bytes";
  constexpr std::string_view known[] = {"token", kLimit};
  constexpr double kMaxBytes = 64.0 * 1024 * kGiB;
  const auto body = object_of(context.request, known);
  const auto token = token_in(context.request, body);
  std::optional<std::uint64_t> limit;
  if (body.contains(kLimit))
    limit = static_cast<std::uint64_t>(number_in(body, kLimit, 0, kMaxBytes));
  return answer_json(s.broker().renew(token, limit));
}

// The token in the body, or as a query parameter: many clients send no body with DELETE.
constexpr std::string_view kReleaseParameters[] = {"token"};
Response release(Service& s, const RouteContext& context) {
  Token token;
  if (context.request.body.empty()) {
    token = token_from_text(context.request, context.query.text("token", ""));
  } else {
    require(context.query.empty(), "say the token in the body or in the query, not in both");
    token = token_in(context.request, object_of(context.request, kReleaseParameters));
  }
  s.broker().release(token);
  return json_text(Json{{"lease_id", std::to_string(token.id)}, {"released", true}}.dump());
}

bool is_own(const Request::Peer& peer, const broker::Lease& lease) {
  return peer.uid >= 0 && peer.uid == lease.request.holder.uid;
}

Response revoke(Service& s, const RouteContext& context) {
  constexpr std::string_view known[] = {"reason"};
  const auto body = object_of(context.request, known);
  require(body.contains("reason") && body["reason"].is_string() &&
              !body["reason"].get_ref<const std::string&>().empty(),
          "'reason' is missing: it is shown to the holder of the lease");
  const auto id = id_of(context.request);
  const bool own = is_own(context.request.peer, s.broker().status(id).lease);
  if (!own && !context.request.peer.is_admin)
    return admin_required(context.request, "revoking the lease of another user");
  s.broker().revoke(id, body["reason"].get_ref<const std::string&>());
  auto made = json_text(Json{{"lease_id", std::to_string(id)}, {"revoked", true}}.dump());
  made.is_own = own;
  return made;
}

Response report(Service& s, const RouteContext& context) {
  constexpr std::string_view known[] = {"token", "batch_size", "peak_memory_gb", "out_of_memory"};
  const auto body = object_of(context.request, known);
  const auto token = token_in(context.request, body);
  require(!body.contains("out_of_memory") || body["out_of_memory"].is_boolean(),
          "'out_of_memory' must be true or false");
  broker::UsageReport usage;
  usage.out_of_memory = body.value("out_of_memory", false);
  const auto is_given = [&](const char* name) {
    return !usage.out_of_memory || body.contains(name);
  };
  if (is_given("batch_size")) {
    const double size = number_in(body, "batch_size", 1, 1 << 20);
    require(size == std::floor(size), "'batch_size' must be an integer");
    usage.batch_size = static_cast<std::int64_t>(size);
  }
  if (is_given("peak_memory_gb"))
    usage.peak_bytes =
        static_cast<std::uint64_t>(number_in(body, "peak_memory_gb", 0, 65536) * kGiB);
  s.broker().report(token, usage);
  return json_text(Json{{"lease_id", std::to_string(token.id)}, {"noted", true}}.dump());
}

constexpr std::string_view kTimelineParameters[] = {"from", "to", "limit", "before"};
Response timeline(Service& s, const RouteContext& context) {
  const auto now_ms = unix_ms(std::chrono::system_clock::now());
  const auto from = context.query.time_ms("from", -3600, now_ms);
  const auto to = context.query.time_ms("to", 0, now_ms);
  require(from < to, "query parameter 'from' must be before 'to'");
  const auto limit = context.query.integer("limit", 500, 1, Broker::kTimelineRows);
  const auto before = context.query.text("before", "");
  return json_text(s.broker()
                       .timeline_json(from, to, static_cast<std::size_t>(limit),
                                      before.empty() ? 0 : id_from(before))
                       .dump());
}

constexpr int kTimelineReuse_ms = 500;

constexpr RouteEntry kLeaseRoutes[] = {
    {.method = Method::get,
     .pattern = "/v1/leases",
     .handler = list,
     .execution = kBlocking,
     .parameters = kListParameters},
    {.method = Method::post,
     .pattern = "/v1/leases",
     .handler = request_lease,
     .execution = kLeasePool,
     .max_body = kSmallBody},
    {.method = Method::get,
     .pattern = "/v1/leases/timeline",
     .handler = timeline,
     .execution = kBlocking,
     .reuse_ms = kTimelineReuse_ms,
     .parameters = kTimelineParameters},
    {.method = Method::get,
     .pattern = "/v1/leases/{id}",
     .handler = of_lease<show>,
     .execution = kLeasePool},
    {.method = Method::delete_,
     .pattern = "/v1/leases/{id}",
     .handler = of_lease<release>,
     .execution = kLeasePool,
     .max_body = kSmallBody,
     .parameters = kReleaseParameters,
     .serves_hung_up = true},
    {.method = Method::post,
     .pattern = "/v1/leases/{id}/renew",
     .handler = of_lease<renew>,
     .execution = kLeasePool,
     .max_body = kSmallBody,
     .serves_hung_up = true},
    {.method = Method::post,
     .pattern = "/v1/leases/{id}/report",
     .handler = of_lease<report>,
     .execution = kLeasePool,
     .max_body = kSmallBody,
     .serves_hung_up = true},
    {.method = Method::post,
     .pattern = "/v1/leases/{id}/revoke",
     .handler = of_lease<revoke>,
     .execution = kLeasePool,
     .max_body = kSmallBody,
     .access = Access::audited},
};

}  // namespace

std::span<const RouteEntry> lease_routes() noexcept { return kLeaseRoutes; }

}  // namespace sluice::serve::http

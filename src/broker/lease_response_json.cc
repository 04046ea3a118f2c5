#include "broker/lease_response_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "broker/broker.h"
#include "watch/alert.h"

namespace sluice::broker {

namespace {

std::string_view status_of(const LeaseResponse& response) {
  const auto state = response.lease.state;
  if (response.lease.ending == EndReason::timed_out) return "failed";  // it never had anything
  if (response.lease.id != 0 && (state == State::ended || state == State::draining)) return "ended";
  switch (response.verdict) {
    case Verdict::granted: return "allocated";
    case Verdict::waiting: return "waiting";
    case Verdict::on_cpu: return "cpu_fallback";
    case Verdict::refused: return "failed";
  }
  return "failed";
}

Json index_at(const LeaseResponse& response, std::size_t part) {
  return part < response.device_indexes.size() ? Json(response.device_indexes[part]) : Json();
}

void add_gpus(Json& json, const LeaseResponse& response) {
  json["gpus"] = Json::array();
  for (std::size_t i = 0; i < response.lease.parts.size(); ++i) {
    const auto& part = response.lease.parts[i];
    json["gpus"].push_back({{"gpu_uuid", part.uuid},
                            {"gpu_device", index_at(response, i)},
                            {"memory_gb", gb(part.bytes)}});
  }
}

void add_refusal(Json& json, const LeaseResponse& response) {
  if (response.verdict == Verdict::granted) return;
  json["blocked_by"] = Json::array();
  for (const auto& lease : response.blocked_by) {
    json["blocked_by"].push_back({{"lease_id", std::to_string(lease.id)},
                                  {"agent", lease.request.agent},
                                  {"priority", to_string(lease.request.priority)},
                                  {"memory_gb", gb(promised(lease))}});
  }
  json["obstacles"] = Json::array();
  for (const auto& card : response.refusal.obstacles) {
    Json one{{"gpu_uuid", card.uuid}, {"bus", card.bus}, {"name", card.name}};
    one["free_gb"] = gb(card.free), one["kept_gb"] = gb(card.kept);
    if (!card.why.empty()) one["why"] = card.why;
    json["obstacles"].push_back(std::move(one));
  }
  const auto& when = response.refusal.may_fit_in;
  json["may_fit_in_s"] = when ? Json(thousandths(when->count())) : Json();
}

void add_holders_part(Json& json, const LeaseResponse& response) {
  if (response.lease.ending != EndReason::none) return;  // nothing can be done with it any more
  if (response.lease.id != 0) json["token"] = to_string(token_of(response.lease));
  json["env"] = Json::object();
  for (const auto& [name, value] : response.env) json["env"][name] = value;
}

// "<number><end>" at the front of `text`, which is shortened by it.
bool take(std::string_view& text, std::uint64_t& number, int base, bool is_last) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (failed != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (is_last) return text.empty();
  if (!text.starts_with('.')) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

double thousandths(double value) { return std::round(value * 1000) / 1000; }

double gb(std::uint64_t bytes) {
  const double value = static_cast<double>(bytes) / (1 << 30), scale = value < 1 ? 1e6 : 1e3;
  return std::floor(value * scale) / scale;
}

void put_future(Json& json, const std::string& name, Instant t, const Moment& at) {
  if (t == Instant{}) return;
  json[name + "_at"] = watch::iso_time(wall_of(t, at));
  // One whose time has come is dealt with a moment later.
  json[name + "_in_s"] = thousandths(std::max(0.0, seconds_between(at.now, t)));
}

void put_past(Json& json, const std::string& name, Instant t, const Moment& at) {
  if (t == Instant{}) return;
  json[name + "_at"] = watch::iso_time(wall_of(t, at));
  json[name + "_age_s"] = thousandths(seconds_between(t, at.now));
}

void put_trouble(Json& json, const Lease& lease, const Moment& at) {
  if (lease.over_use > 0) json["over_use"] = lease.over_use;
  if (lease.state != State::yielding) return;
  put_future(json, "yield", lease.yield_by, at);
  json["yield_reason"] = lease.yield_reason;
  json["yields_to"] = std::to_string(lease.yields_to);
}

void put_yield_cost(Json& json, const Lease& lease) {
  if (lease.yield_requested_at == Instant{} || lease.yield_freed_at == Instant{}) return;
  json["yield_cost"] = {
      {"seconds", thousandths(seconds_between(lease.yield_requested_at, lease.yield_freed_at))},
      {"memory_gb", gb(promised(lease) - lease.yield_kept)}};
}

std::string to_string(const Token& token) {
  return std::to_string(token.id) + "." + std::to_string(token.renewals) + "." + [&] {
    std::string hex(16, '0');
    for (std::size_t i = 0; i < 16; ++i)
      hex[15 - i] = "0123456789abcdef"[(token.secret >> (4 * i)) & 15];
    return hex;
  }();
}

std::optional<Token> token_from(std::string_view text) noexcept {
  Token token;
  if (text.size() > 64 || !take(text, token.id, 10, false) ||
      !take(text, token.renewals, 10, false) || !take(text, token.secret, 16, true))
    return std::nullopt;
  return token;
}

std::string cursor_of(const LeasePage& page) {
  return std::to_string(page.after) + "." + std::to_string(page.skip_waiting) + "." +
         std::to_string(page.cpu_after);
}

std::optional<LeasePage> page_from(std::string_view text) noexcept {
  LeasePage page;
  if (text.size() > 64 || !take(text, page.after, 10, false) ||
      !take(text, page.skip_waiting, 10, false) || !take(text, page.cpu_after, 10, true))
    return std::nullopt;
  return page;
}

Token token_of(const Lease& lease) noexcept { return {lease.id, lease.renewals, lease.secret}; }

LeaseError::LeaseError(Ledger::Outcome outcome, const std::string& message,
                       std::optional<Token> current)
    : Error(outcome == Ledger::Outcome::unknown ? Code::not_found : Code::invalid_argument,
            message),
      outcome_(outcome),
      current_(std::move(current)) {}

Json lease_json(const Lease& lease, const Moment& at) {
  const auto& w = lease.request;
  Json json{{"lease_id", std::to_string(lease.id)},
            {"agent", w.agent},
            {"state", to_string(lease.state)},
            {"priority", to_string(w.priority)},
            {"model_type", w.model_type},
            {"requested_gb", gb(w.bytes)},
            {"memory_gb", gb(promised(lease))},
            {"enforcement", to_string(lease.enforcement)},
            {"reason", lease.reason}};
  if (lease.ending != EndReason::none) json["end_reason"] = to_string(lease.ending);
  json["gpus"] = Json::array();
  for (const auto& part : lease.parts)
    json["gpus"].push_back({{"gpu_uuid", part.uuid}, {"memory_gb", gb(part.bytes)}});
  if (w.holder.pid != 0) json["pid"] = w.holder.pid;
  if (w.holder.uid >= 0) json["uid"] = w.holder.uid;
  put_past(json, "requested", lease.requested_at, at);
  put_past(json, "granted", lease.granted_at, at);
  if (lease.ended_at == Instant{}) put_future(json, "expires", lease.expires_at, at);
  put_trouble(json, lease, at);
  put_past(json, "ended", lease.ended_at, at);
  put_yield_cost(json, lease);
  return json;
}

Json to_json(const LeaseResponse& response, Instant now, WallTime wall) {
  const Moment at{now, wall};
  const auto& lease = response.lease;
  const bool has_gpu = !lease.parts.empty();
  Json json{{"status", status_of(response)},
            {"gpu_device", has_gpu ? index_at(response, 0) : Json()},
            {"allocated_memory_gb", has_gpu ? gb(lease.parts.front().bytes) : 0.0},
            {"batch_size", response.batch.size > 0 ? Json(response.batch.size) : Json()},
            {"batch_reason", response.batch.reason},
            {"agent", lease.request.agent},
            {"lease_id", lease.id != 0 ? Json(std::to_string(lease.id)) : Json()},
            {"fencing_token", lease.id != 0 ? Json(lease.id) : Json()},
            {"gpu_uuid", has_gpu ? Json(lease.parts.front().uuid) : Json()},
            {"enforcement", to_string(lease.enforcement)},
            {"reason", lease.reason},
            {"ttl_s", thousandths(lease.request.ttl.count())}};
  add_gpus(json, response);
  if (lease.ending == EndReason::none) put_future(json, "expires", lease.expires_at, at);
  put_trouble(json, lease, at);
  put_yield_cost(json, lease);
  if (response.for_holder) add_holders_part(json, response);
  add_refusal(json, response);
  return json;
}

}  // namespace sluice::broker

#include "broker/store/store_rows.h"

#include <fmt/core.h>

#include <charconv>
#include <initializer_list>
#include <set>

#include "base/error.h"
#include "base/sqlite/checked_row.h"
#include "base/utf8.h"
#include "broker/store/stored_rows.h"

namespace sluice::broker {

namespace {

std::int64_t whole(std::uint64_t n) { return static_cast<std::int64_t>(n); }
std::uint64_t bits(std::int64_t n) { return static_cast<std::uint64_t>(n); }
std::int64_t ms(Seconds s) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(s).count();
}
Seconds seconds(std::int64_t ms) { return std::chrono::milliseconds(ms); }

// A moment that has not come is Instant{} there and 0 here.
std::int64_t wall_ms(Instant t, const Moment& at) {
  return t == Instant{} ? 0 : unix_ms(wall_of(t, at));
}

std::string_view placement_name(PlacementPolicy s) {
  return s == PlacementPolicy::spread ? "spread" : "best_fit";
}

[[noreturn]] void damaged(std::string_view column, std::string_view text) {
  throw Error(Code::internal,
              "a lease has " + std::string(column) + " '" + std::string(text.substr(0, 64)) + "'");
}

Instant instant(std::int64_t wall_ms, const Moment& at) {
  constexpr std::int64_t kFarFuture = 10'000'000'000'000;  // the year 2286
  if (wall_ms < -kFarFuture || wall_ms > kFarFuture) damaged("the time", std::to_string(wall_ms));
  return wall_ms == 0 ? Instant{} : instant_of(wall_ms, at);
}

Seconds span(std::int64_t ms) {
  constexpr std::int64_t kMaxMs = 86'400'000;  // as check() allows
  if (ms < 0 || ms > kMaxMs) damaged("the time span", std::to_string(ms));
  return seconds(ms);
}

std::string name(std::string_view column, std::string text) {
  if (first_invalid_utf8(text)) damaged(column, "that is no text");
  return text;
}

template <class E>
E named(std::string_view column, const std::string& text, std::initializer_list<E> all) {
  for (const E e : all)
    if (to_string(e) == text) return e;
  damaged(column, text);
}

std::string parts_text(const std::vector<Part>& parts) {
  std::string text;
  for (const auto& p : parts) text += std::to_string(p.bytes) + " " + p.uuid + "\n";
  return text;
}

std::vector<Part> parts_from(std::string_view text) {
  std::vector<Part> parts;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const auto space = line.find(' ');
    std::uint64_t bytes = 0;
    const auto [end, failed] = std::from_chars(line.data(), line.data() + line.size(), bytes);
    if (failed != std::errc{} || space == line.npos || end != line.data() + space)
      damaged("parts", line);
    parts.push_back({name("parts", std::string(line.substr(space + 1))), bytes});
  }
  return parts;
}

void bind_request(CheckedRow& s, const LeaseRequest& w) {
  s.bind_kept(w.agent).bind(whole(w.bytes)).bind(whole(w.min_bytes));
  s.bind(static_cast<std::int64_t>(w.gpus))
      .bind_kept(to_string(w.priority))
      .bind_kept(w.model_type);
  s.bind_kept(w.device).bind(static_cast<std::int64_t>(w.numa_node.value_or(-1)));
  s.bind(static_cast<std::int64_t>(w.linked)).bind_kept(placement_name(w.placement));
  s.bind(ms(w.ttl)).bind(ms(w.wait)).bind_kept(to_string(w.on_unavailable));
  s.bind(static_cast<std::int64_t>(w.client_limits)).bind(w.holder.pid);
  s.bind(whole(w.holder.start_time)).bind(w.holder.uid);
}

std::int64_t between(std::string_view column, std::int64_t value, std::int64_t low,
                     std::int64_t high) {
  if (value < low || value > high) damaged(column, std::to_string(value));
  return value;
}

// A lease whose memory would be counted wrongly.
void check_sound(const Lease& l) {
  const bool has_memory =
      l.state == State::held || l.state == State::yielding || l.state == State::draining;
  if (l.request.agent.empty()) damaged("the agent", "");
  if (l.state != State::ended && l.parts.size() != (has_memory ? l.request.gpus : 0))
    damaged("parts that do not go with its state", to_string(l.state));
  std::set<std::string_view> uuids;
  for (const auto& part : l.parts)
    if (part.bytes == 0 || part.bytes > l.request.bytes || !uuids.insert(part.uuid).second)
      damaged("a part that cannot be", part.uuid);
}

LeaseRequest request_from(const Statement& row) {
  constexpr std::int64_t kMaxBytes = std::int64_t{64} << 40;  // these as check() allows
  constexpr std::int64_t kMaxGpus = 64;
  LeaseRequest w;
  w.agent = name("agent", row.text(5));
  w.bytes = bits(between("bytes", row.number(6), 1, kMaxBytes));
  w.min_bytes = bits(between("min_bytes", row.number(7), 0, row.number(6)));
  w.gpus = static_cast<unsigned>(between("gpus", row.number(8), 1, kMaxGpus));
  w.priority = named("priority", row.text(9),
                     {Priority::low, Priority::normal, Priority::high, Priority::critical});
  w.model_type = name("model_type", row.text(10)), w.device = name("device", row.text(11));
  if (row.number(12) >= 0) w.numa_node = static_cast<int>(row.number(12));
  w.linked = row.number(13) != 0;
  w.placement = row.text(14) == "spread" ? PlacementPolicy::spread : PlacementPolicy::best_fit;
  w.ttl = span(row.number(15)), w.wait = span(row.number(16));
  w.on_unavailable = named("on_unavailable", row.text(17),
                           {OnUnavailable::cpu, OnUnavailable::wait, OnUnavailable::fail});
  w.client_limits = row.number(18) != 0;
  w.holder.pid = row.number(19);
  w.holder.start_time = bits(row.number(20));
  w.holder.uid = row.number(21);
  w.peer = name("peer", row.text(34));
  w.idempotency_key = name("idempotency_key", row.text(35));
  return w;
}

}  // namespace

void bind_lease(Statement& statement, const Lease& l, const Moment& at) {
  CheckedRow s(statement);
  s.bind(whole(l.id)).bind(whole(l.secret)).bind(whole(l.renewals));
  s.bind_kept(to_string(l.state)).bind_kept(to_string(l.ending));
  bind_request(s, l.request);
  s.bind(parts_text(l.parts)).bind_kept(to_string(l.enforcement)).bind_kept(l.reason);
  s.bind(wall_ms(l.requested_at, at))
      .bind(wall_ms(l.granted_at, at))
      .bind(wall_ms(l.expires_at, at));
  s.bind(wall_ms(l.yield_by, at)).bind(wall_ms(l.ended_at, at)).bind(whole(l.yields_to));
  s.bind(wall_ms(l.yield_requested_at, at)).bind(wall_ms(l.yield_freed_at, at));
  s.bind(whole(l.yield_kept)).bind_kept(l.request.peer).bind_kept(l.request.idempotency_key);
  s.seal();
}

Lease lease_from(const Statement& row, const Moment& at) {
  if (!is_whole(row, kLeaseColumns)) damaged("values that do not agree with its", "checksum");
  Lease l;
  l.id = bits(between("the number", row.number(0), 1, whole(kLastId)));
  l.secret = bits(row.number(1)), l.renewals = bits(row.number(2));
  l.state = named(
      "state", row.text(3),
      {State::waiting, State::on_cpu, State::held, State::yielding, State::draining, State::ended});
  l.ending = named("ending", row.text(4),
                   {EndReason::none, EndReason::released, EndReason::expired,
                    EndReason::holder_died, EndReason::revoked, EndReason::timed_out});
  l.request = request_from(row);
  l.parts = parts_from(row.text(22));
  l.enforcement = named("enforcement", row.text(23),
                        {Enforcement::none, Enforcement::observed, Enforcement::client,
                         Enforcement::mps, Enforcement::cgroup});
  l.reason = row.text(24);
  if (first_invalid_utf8(l.reason)) l.reason = "a text that cannot be read";
  l.requested_at = instant(row.number(25), at), l.granted_at = instant(row.number(26), at);
  l.expires_at = instant(row.number(27), at), l.yield_by = instant(row.number(28), at);
  l.ended_at = instant(row.number(29), at);
  l.yields_to = bits(row.number(30));
  l.yield_requested_at = instant(row.number(31), at),
  l.yield_freed_at = instant(row.number(32), at);
  check_sound(l);
  l.yield_kept = bits(between("yield_kept", row.number(33), 0, whole(promised(l))));
  return l;
}

void require_whole(Database& db) {
  if (const auto verdict = db.text("PRAGMA quick_check(1)"); verdict != "ok")
    throw Error(Code::internal, "it is damaged: " + verdict.substr(0, verdict.find('\n')));
}

bool settle_schema(Database& db) {
  Transaction all(db);
  const auto version = db.number("PRAGMA user_version");
  require_whole(db);
  if (version == 0) db.run(kCreateTables);
  for (auto v = version; v > 0 && v < kVersion; ++v)
    db.run(kMigrations[static_cast<std::size_t>(v - 1)]);
  if (version > 0 && version < kFirstWithChecksums) seal_rows(db);
  if (version < kVersion)
    db.run(fmt::format("PRAGMA user_version={}; PRAGMA application_id={}", kVersion, kApplication));
  all.commit();
  return version < kVersion;
}

void save_footprint(Statement& s, const FootprintKey& key, std::string_view runs,
                    std::int64_t at_ms) {
  CheckedRow row(s);
  row.bind(key.peer).bind(key.agent).bind(key.model_type).bind(runs).bind(at_ms).seal().step();
}

void save_state(Statement& s, std::string_view key, std::string_view value) {
  CheckedRow(s).bind(key).bind(value).seal().step();
}

std::string footprints_text(std::span<const Footprint> runs) {
  std::string text;
  for (const auto& r : runs) {
    if (!text.empty()) text += ';';
    text += std::to_string(r.batch_size) + ' ' + std::to_string(r.bytes) +
            (r.out_of_memory ? " 1" : " 0");
  }
  return text;
}

std::vector<Footprint> footprints_from(std::string_view text) {
  std::vector<Footprint> runs;
  const char *at = text.data(), *const end = at + text.size();
  const auto number = [&](auto& value) {
    const auto [next, failed] = std::from_chars(at, end, value);
    if (failed != std::errc{} || (next != end && *next != ' ' && *next != ';'))
      throw Error(Code::internal, "a footprint is unreadable");
    at = next == end ? end : next + 1;
  };
  while (at != end) {
    Footprint run{};
    int out_of_memory = 0;
    number(run.batch_size), number(run.bytes), number(out_of_memory);
    run.out_of_memory = out_of_memory != 0;
    runs.push_back(run);
  }
  return runs;
}

}  // namespace sluice::broker

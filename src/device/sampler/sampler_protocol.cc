#include "device/sampler/sampler_protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace sluice::device {

namespace {

std::int64_t ns(Instant t) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count();
}
Instant from_ns(std::int64_t n) {
  return Instant(std::chrono::duration_cast<Steady::duration>(std::chrono::nanoseconds(n)));
}

std::string json_text(std::string_view text) {
  const auto plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (std::ranges::all_of(text, plain)) return fmt::format("\"{}\"", text);
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json process_json(const Process& p) {
  Json j{{"pid", p.pid}, {"name", p.name}, {"user", p.user}, {"kind", p.kind}};
  if (p.memory) j["memory"] = *p.memory;
  if (p.utilization) j["utilization"] = *p.utilization;
  if (p.memory_activity) j["memory_activity"] = *p.memory_activity;
  return j;
}

Process process_from(const Json& j) {
  Process p{j.at("pid"), j.at("name"), j.at("user"), j.at("kind"), {}, {}, {}};
  if (j.contains("memory")) p.memory = j["memory"].get<std::uint64_t>();
  if (j.contains("utilization")) p.utilization = j["utilization"].get<double>();
  if (j.contains("memory_activity")) p.memory_activity = j["memory_activity"].get<double>();
  return p;
}

// Samples and beats are most of what is sent, every second for ever: they are
// printed directly, without building a document first.
void print(fmt::memory_buffer& out, const Sample& s) {
  auto to = std::back_inserter(out);
  fmt::format_to(to, R"({{"is":"sample","gpu":{},"at":{},"values":{{)", json_text(s.gpu), ns(s.at));
  const char* comma = "";
  for (const auto& [metric, value] : s.values) {
    if (!std::isfinite(value)) continue;
    fmt::format_to(to, R"({}"{}":{})", comma, info(metric).name, value);
    comma = ",";
  }
  fmt::format_to(to, R"(}},"absent":[)");
  comma = "";
  for (const auto metric : s.absent) {
    fmt::format_to(to, R"({}"{}")", comma, info(metric).name);
    comma = ",";
  }
  fmt::format_to(to, "]");
  if (s.processes) {
    Json list = Json::array();
    for (const auto& p : *s.processes) list.push_back(process_json(p));
    fmt::format_to(to, R"(,"processes":{})",
                   list.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  fmt::format_to(to, "}}");
}

void print(fmt::memory_buffer& out, const Beat& b) {
  auto to = std::back_inserter(out);
  fmt::format_to(to, R"({{"is":"beat","at":{},"busy":[)", ns(b.at));
  const char* comma = "";
  for (const auto& busy : b.busy) {
    fmt::format_to(to, R"({}{{"gpu":{},"call":{},"since":{}}})", comma, json_text(busy.gpu),
                   json_text(busy.call), ns(busy.since));
    comma = ",";
  }
  const auto& c = b.cost;
  fmt::format_to(
      to, R"(],"cost":{{"core":{},"driver":{},"interval_scale":{},"calls":{},"errors":{}}}}})",
      c.core_share, c.driver_share, c.interval_scale, c.calls, c.errors);
}

void print(fmt::memory_buffer& out, const Json& j) {
  fmt::format_to(std::back_inserter(out), "{}",
                 j.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void print(fmt::memory_buffer& out, const Found& f) {
  Json gpus = Json::array();
  for (const auto& gpu : f.gpus) gpus.push_back(to_json(gpu));
  Json json{{"is", "gpus"}, {"gpus", std::move(gpus)}, {"notes", f.notes}};
  if (!f.driver_trouble.empty()) json["driver_trouble"] = f.driver_trouble;
  if (!f.has_all) json["has_all"] = false;
  print(out, json);
}

void print(fmt::memory_buffer& out, const Trouble& t) {
  print(
      out,
      Json{{"is", "trouble"}, {"gpu", t.gpu}, {"at", ns(t.at)}, {"why", t.why}, {"gone", t.gone}});
}

void print(fmt::memory_buffer& out, const XidSeen& x) {
  print(out, Json{{"is", "xid"},
                  {"gpu", x.gpu},
                  {"at", ns(x.xid.at)},
                  {"wall", unix_ms(x.xid.wall)},
                  {"code", x.xid.code}});
}

void print(fmt::memory_buffer& out, const End& e) {
  print(out, Json{{"is", "end"}, {"why", e.why}, {"fault", e.fault}});
}

Message sample_from(const Json& j) {
  Sample s{j.at("gpu"), from_ns(j.at("at")), {}, {}, {}};
  for (const auto& [name, value] : j.at("values").items())
    if (const auto metric = find_metric(name)) s.values.emplace_back(*metric, value.get<double>());
  for (const auto& name : j.at("absent"))
    if (const auto metric = find_metric(name.get<std::string>())) s.absent.push_back(*metric);
  if (j.contains("processes")) {
    s.processes.emplace();
    for (const auto& p : j["processes"]) s.processes->push_back(process_from(p));
  }
  return s;
}

Message beat_from(const Json& j) {
  Beat b{from_ns(j.at("at")), {}, {}};
  for (const auto& busy : j.at("busy"))
    b.busy.push_back({busy.at("gpu"), busy.at("call"), from_ns(busy.at("since"))});
  const auto& c = j.at("cost");
  b.cost = {c.at("core"), c.at("driver"), c.at("interval_scale"), c.at("calls"), c.at("errors")};
  return b;
}

Message found_from(const Json& j) {
  Found f;
  for (const auto& gpu : j.at("gpus")) f.gpus.push_back(gpu_from_json(gpu));
  f.notes = j.at("notes").get<std::vector<std::string>>();
  f.driver_trouble = j.value("driver_trouble", "");
  f.has_all = j.value("has_all", true);
  return f;
}

Message xid_from(const Json& j) {
  const WallTime wall{std::chrono::milliseconds(j.at("wall").get<std::int64_t>())};
  return XidSeen{j.at("gpu"), Xid{j.at("code"), from_ns(j.at("at")), wall}};
}

Message message_from(const Json& j) {
  const auto is = j.at("is").get<std::string>();
  if (is == "sample") return sample_from(j);
  if (is == "beat") return beat_from(j);
  if (is == "gpus") return found_from(j);
  if (is == "trouble") return Trouble{j.at("gpu"), from_ns(j.at("at")), j.at("why"), j.at("gone")};
  if (is == "xid") return xid_from(j);
  if (is == "end") return End{j.at("why"), j.at("fault")};
  throw Error(Code::invalid_argument, "sampler: unknown message '" + is + "'");
}

}  // namespace

std::string encode(const Message& message) {
  fmt::memory_buffer out;
  std::visit([&](const auto& m) { print(out, m); }, message);
  out.push_back('\n');
  return fmt::to_string(out);
}

Message decode(std::string_view line) {
  try {
    return message_from(Json::parse(line));
  } catch (const Json::exception& e) {
    throw Error(Code::invalid_argument, std::string("sampler: cannot read a message: ") + e.what());
  }
}

std::string encode(const Order& order) {
  if (const auto* follow = std::get_if<Follow>(&order))
    return Json{{"is", "follow"}, {"gpus", follow->gpus}}.dump() + "\n";
  const auto& intervals = std::get<SamplingIntervals>(order);
  return fmt::format(R"({{"is":"intervals","interval":{},"slow":{},"processes":{},"budget":{}}})"
                     "\n",
                     intervals.interval_s, intervals.slow_interval_s, intervals.process_interval_s,
                     intervals.budget);
}

Order decode_order(std::string_view line) {
  try {
    const auto j = Json::parse(line);
    if (j.at("is") == "follow")
      return Follow{j.at("gpus").get<std::map<std::string, std::uint64_t>>()};
    require(j.at("is") == "intervals", "sampler: expected intervals or GPUs to follow");
    return SamplingIntervals{j.at("interval"), j.at("slow"), j.at("processes"), j.at("budget")};
  } catch (const Json::exception& e) {
    throw Error(Code::invalid_argument, std::string("sampler: cannot read an order: ") + e.what());
  }
}

}  // namespace sluice::device

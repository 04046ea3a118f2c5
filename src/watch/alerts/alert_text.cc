#include "watch/alerts/alert_text.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/units.h"
#include "base/utf8.h"

namespace sluice::watch {

namespace {

struct Context {
  const Rule& rule;
  const Subject& subject;
  const Sighting& seen;
  double lasted_s;
};

std::string process_text(const Context& c) {
  const auto* p = top_process(c.subject);
  if (p == nullptr) return "the process that uses it";
  const bool shown = !p->name.empty() && !first_invalid_utf8(p->name);  // a name can be any bytes
  std::string text =
      shown ? fmt::format("{} (pid {})", p->name, p->pid) : fmt::format("pid {}", p->pid);
  if (!p->user.empty()) text += " of " + p->user;
  if (p->memory) text += " with " + human_bytes(*p->memory);
  return text;
}

std::string health_cause(const Context& c) {
  const auto* gpu = c.subject.gpu;
  const std::string cause = gpu == nullptr ? "" : gpu->health.cause;
  return cause.empty() ? "The GPU's health changed." : cause;
}

std::string health_fix(const Context& c) {
  const auto* gpu = c.subject.gpu;
  const std::string fix = gpu == nullptr ? "" : gpu->health.fix;
  return fix.empty() ? fmt::format("See sluice doctor and the kernel log for {}.", c.subject.title)
                     : fix;
}

std::string xid_text(const Context& c) {
  const auto* xid = newest_xid(c.subject, c.rule.metric);
  if (xid == nullptr) return "an XID";
  return fmt::format("XID {} ({})", xid->code, device::xid_info(xid->code).meaning);
}

std::string throttle_text(const Context& c) {
  const auto bits = c.subject.readings->value(device::Metric::throttle_reasons);
  const auto names = device::throttle_names(static_cast<std::uint64_t>(bits.value_or(0)));
  return names.empty() ? "nothing the driver names" : fmt::format("{}", fmt::join(names, ", "));
}

// "problem; fix": one part or the other, as the driver's loader wrote it.
std::string driver_part(const Context& c, bool cause) {
  const std::string& all = c.subject.snapshot->sampler.driver_trouble;
  const auto end = all.find("; ");
  if (cause) return all.empty() ? "The driver does not start" : all.substr(0, end);
  return end == all.npos ? "Look at dmesg | grep NVRM" : all.substr(end + 2);
}

std::string baseline_text(const Context& c) {
  return c.seen.baseline ? with_unit(*c.seen.baseline, unit_of(c.rule.metric)) : "no baseline";
}

bool relative(const Rule& rule) {
  return rule.condition == "drops_percent" || rule.condition == "rises_percent";
}

std::string per_minute(const Rule& rule, double value) {
  return with_unit(value, unit_of(rule.metric)) + " a minute";
}

std::string threshold_text(const Context& c) {
  if (c.rule.condition == "grows") return per_minute(c.rule, c.rule.threshold);
  return with_unit(c.rule.threshold, relative(c.rule) ? "percent" : unit_of(c.rule.metric));
}

std::string since_text(const Context& c) {
  const Snapshot& s = *c.subject.snapshot;
  const auto ago = s.at - c.seen.since.value_or(c.seen.at);
  return iso_time(s.wall - std::chrono::duration_cast<WallTime::duration>(ago));
}

// "8.0 GiB are promised, reached in 12 min at this rate"
std::string promised_text(const Context& c) {
  const double promised =
      c.subject.owner == nullptr ? 0 : static_cast<double>(c.subject.owner->promised);
  if (promised == 0) return "nothing is promised";
  const std::string text = with_unit(promised, "bytes") + " are promised";
  if (c.seen.value >= promised) return text + ", and passed";
  if (c.rule.condition != "grows" || c.seen.measured <= 0) return text;
  const double left_s = (promised - c.seen.value) / c.seen.measured * 60;
  return text + ", reached in " + human_duration(left_s) + " at this rate";
}

// Returns the newest line of the damage report, or the reason why nothing can be stored.
std::string lease_store_text(const Context& c) {
  const auto& store = c.subject.snapshot->lease_store;
  if (c.rule.metric != "leases_damaged") return store.trouble;
  std::string_view lines = store.damage;
  lines = lines.substr(0, lines.find_last_not_of('\n') + 1);
  return std::string(lines.substr(lines.rfind('\n') + 1));  // npos + 1 is 0
}

using Write = std::string (*)(const Context&);
struct Placeholder {
  std::string_view name;
  Write write;
};
constexpr Placeholder kPlaceholders[] = {
    {"device", [](const Context& c) { return c.subject.title; }},
    {"bus",
     [](const Context& c) {
       return c.subject.gpu != nullptr && !c.subject.gpu->gpu.bus.empty() ? c.subject.gpu->gpu.bus
                                                                          : c.subject.id;
     }},
    {"value", [](const Context& c) { return with_unit(c.seen.value, unit_of(c.rule.metric)); }},
    {"threshold", threshold_text},
    {"baseline", baseline_text},
    {"for", [](const Context& c) { return human_duration(c.lasted_s); }},
    {"process", process_text},
    {"health_cause", health_cause},
    {"health_fix", health_fix},
    {"xid", xid_text},
    {"throttle", throttle_text},
    {"history",
     [](const Context& c) {
       const auto& why = c.subject.snapshot->history_trouble;
       return why.empty() ? std::string("no reason given") : why;
     }},
    {"leases", lease_store_text},
    {"owner",
     [](const Context& c) {
       return c.subject.owner == nullptr ? c.subject.title : c.subject.owner->owner;
     }},
    {"growth", [](const Context& c) { return per_minute(c.rule, c.seen.measured); }},
    {"since", since_text},
    {"promised", promised_text},
    {"driver_cause", [](const Context& c) { return driver_part(c, true); }},
    {"driver_fix", [](const Context& c) { return driver_part(c, false); }},
    {"sampler",
     [](const Context& c) {
       const auto& state = c.subject.snapshot->sampler.state;
       return state.empty() ? std::string("not running") : state;
     }},
};

// Calls `literal` and `name` with the parts of a text in order. A brace that
// opens no name stays as it is.
template <class Literal, class Name>
void split(std::string_view text, Literal literal, Name name) {
  while (!text.empty()) {
    const auto open = text.find('{');
    const auto close = open == text.npos ? text.npos : text.find('}', open);
    if (close == text.npos) return literal(text);
    literal(text.substr(0, open));
    name(text.substr(open + 1, close - open - 1));
    text.remove_prefix(close + 1);
  }
}

// The text of a flag that is set; other metrics are shown by their value.
struct Phrase {
  std::string_view metric, set, unset;
  std::string_view set_long = {};  // where "for 20 s" cannot follow `set`
};
constexpr Phrase kPhrases[] = {
    {"lost", "lost", "answers again and passed its check"},
    {"degraded", "degraded", "no longer degraded"},
    {"ghost_utilization", "utilization stuck without a process", "the counter moves again"},
    {"throttled", "clock held back by heat or power", "no longer held back"},
    {"rows_pending", "memory row waits for replacement", "no replacement waits any more"},
    {"rows_failed", "memory row could not be replaced", "no failed replacement any more"},
    {"driver_down", "the GPU driver does not start", "the driver starts again",
     "the GPU driver has not started"},
    {"sampler_down", "sampler does not answer", "the sampler answers again",
     "the sampler has not answered"},
    {"history_down", "history cannot be written to disk", "history is written again",
     "history could not be written to disk"},
    {"leases_damaged", "leases on disk were found damaged", "the report was read and removed",
     "leases on disk were found damaged"},
    {"leases_down", "leases cannot be stored", "leases are stored again",
     "leases could not be stored"},
};

const Phrase* phrase_of(const Rule& rule) {
  const auto it = std::ranges::find(kPhrases, rule.metric, &Phrase::metric);
  const bool as_flag = rule.condition == "above" && rule.threshold >= 0 && rule.threshold < 1;
  return it == std::end(kPhrases) || !as_flag ? nullptr : it;
}

std::string comparison(const Context& c) {
  const auto& [rule, subject, seen, lasted] = c;
  if (relative(rule))
    return fmt::format("{} {} its last hour's {}", with_unit(seen.measured, "percent"),
                       rule.condition == "drops_percent" ? "under" : "over", baseline_text(c));
  if (rule.condition == "increases")
    return fmt::format("{} more in 10 min", with_unit(seen.measured, unit_of(rule.metric)));
  if (rule.condition == "grows")
    return fmt::format("grows by {} since {}", per_minute(rule, seen.measured), since_text(c));
  return rule.condition + " " + threshold_text(c);
}

}  // namespace

std::span<const std::string_view> placeholders() noexcept {
  static constexpr auto kNames = [] {
    std::array<std::string_view, std::size(kPlaceholders)> names;
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = kPlaceholders[i].name;
    return names;
  }();
  return kNames;
}

std::vector<std::string> unknown_placeholders(std::string_view text) {
  std::vector<std::string> unknown;
  split(
      text, [](std::string_view) {},
      [&](std::string_view name) {
        if (std::ranges::find(placeholders(), name) == placeholders().end())
          unknown.emplace_back(name);
      });
  return unknown;
}

std::string fill(std::string_view text, const Rule& rule, const Subject& subject,
                 const Sighting& seen, double lasted_s) {
  const Context context{rule, subject, seen, lasted_s};
  std::string out;
  split(
      text, [&](std::string_view literal) { out += literal; },
      [&](std::string_view name) {
        const auto it = std::ranges::find(kPlaceholders, name, &Placeholder::name);
        out += it == std::end(kPlaceholders) ? fmt::format("{{{}}}", name) : it->write(context);
      });
  return out;
}

std::string cause_of(const Rule& rule, const Subject& subject, const Sighting& seen,
                     double lasted_s) {
  if (!rule.cause.empty()) return fill(rule.cause, rule, subject, seen, lasted_s);
  return fmt::format("{} of {} is {}, {}: what the rule {} was added to watch for.", rule.metric,
                     subject.title, with_unit(seen.value, unit_of(rule.metric)),
                     comparison({rule, subject, seen, lasted_s}), rule.name);
}

std::string fix_of(const Rule& rule, const Subject& subject, const Sighting& seen,
                   double lasted_s) {
  if (!rule.fix.empty()) return fill(rule.fix, rule, subject, seen, lasted_s);
  const Context context{rule, subject, seen, lasted_s};
  const auto look = subject.gpu != nullptr
                        ? "Look at " + process_text(context) + " and at what sluice doctor says."
                        : std::string("See what changed here: sluice top, and the server's log.");
  return fmt::format("{} What to do at such a time can be kept as fix in the rule {}.", look,
                     rule.name);
}

std::string summary_of(const Rule& rule, const Subject& subject, const Sighting& seen,
                       double lasted_s) {
  const Context context{rule, subject, seen, lasted_s};
  const bool is_long = lasted_s >= 1;
  const std::string lasted = is_long ? " for " + human_duration(lasted_s) : "";
  if (const auto* phrase = phrase_of(rule))
    return fmt::format("{}: {}{}", subject.title,
                       is_long && !phrase->set_long.empty() ? phrase->set_long : phrase->set,
                       lasted);
  if (rule.metric.starts_with("xid_") && rule.condition == "above")
    return fmt::format("{}: {}", subject.title, xid_text(context));
  return fmt::format("{}: {} {}, {}{}", subject.title, rule.metric,
                     with_unit(seen.value, unit_of(rule.metric)), comparison(context), lasted);
}

std::string recovery_of(const Rule& rule, const Sighting& seen) {
  if (const auto* phrase = phrase_of(rule)) return std::string(phrase->unset);
  if (rule.metric.starts_with("xid_") || rule.condition == "increases")
    return "nothing new for 10 minutes";
  if (rule.condition == "grows")
    return fmt::format("{} no longer grows; it is {}", rule.metric,
                       with_unit(seen.value, unit_of(rule.metric)));
  return fmt::format("{} is {}", rule.metric, with_unit(seen.value, unit_of(rule.metric)));
}

}  // namespace sluice::watch

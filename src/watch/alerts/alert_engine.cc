#include "watch/alerts/alert_engine.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/nearest.h"
#include "watch/alerts/alert_measure.h"
#include "watch/alerts/alert_subject.h"
#include "watch/alerts/alert_text.h"
#include "watch/alerts/rules_json.h"

namespace sluice::watch {

namespace {

enum class Phase { quiet, pending, firing, recovering };

struct State {
  Phase phase = Phase::quiet;
  Instant since{};                  // of the phase, by the time of readings
  Instant breached{};               // when this breach began
  std::optional<Instant> evidence;  // newest reading that counted
  Measure measure;
  Alert alert;
  bool delivered = false;  // the firing was delivered

  bool active() const noexcept { return phase == Phase::firing || phase == Phase::recovering; }
};

using Key = std::pair<std::string, std::string>;  // rule, device

bool applies(const Rule& rule, const Subject& subject) {
  if (!rule.enabled || scope_of(rule.metric) != subject.scope) return false;
  return rule.device == "*" || rule.device == subject.id ||
         (subject.gpu != nullptr && rule.device == subject.gpu->gpu.bus) ||
         (subject.owner != nullptr && rule.device == subject.owner->owner);
}

bool matches(const Silence& silence, const std::string& rule, const std::string& device) {
  return (silence.rule == "*" || silence.rule == rule) &&
         (silence.device == "*" || silence.device == device);
}

bool worse(const Alert& a, const Alert& b) {
  if (a.severity != b.severity) return a.severity > b.severity;
  return a.since != b.since ? a.since < b.since : a.id < b.id;
}

Json silence_json(const Silence& s) {
  return Json{{"rule", s.rule},
              {"device", s.device},
              {"until", iso_time(s.until)},
              {"until_ms", unix_ms(s.until)}};
}

WallTime from_ms(std::int64_t ms) { return WallTime(std::chrono::milliseconds(ms)); }

}  // namespace

struct AlertEngine::Impl {
  std::vector<Rule> rules;
  AlertOptions options;
  std::map<Key, State> states;
  std::map<std::string, Instant> last_seen;  // devices
  std::set<std::string> replaced;            // rules that now watch something else: start anew
  std::vector<Silence> silences;
  std::deque<Alert> recent;
  std::vector<Transition>* out = nullptr;  // of the evaluate() in progress

  // Alerts of an earlier run, until the first evaluate() gives the time.
  struct Earlier {
    Alert alert;
    bool delivered;
  };
  std::vector<Earlier> earlier;

  void resume(const Snapshot& s);
  void step(const Rule& rule, const Subject& subject);
  void advance(const Rule& rule, State& state, const Sighting& seen);
  void no_evidence(const Rule& rule, State& state, const Snapshot& s) const;
  void describe(const Rule& rule, const Subject& subject, State& state, const Sighting& seen);
  void fire(State& state, const Snapshot& s);
  void resolve(State& state, std::string because, WallTime wall);
  void retire(const Snapshot& s, const std::vector<Subject>& subjects);
  bool has_rule(const Key& key, const std::vector<Subject>& subjects) const;
  std::string gone_text(const std::string& rule) const;
  void settle_silences(WallTime wall);
  std::optional<WallTime> silenced_until(const std::string& rule, const std::string& device) const;
  double stale_limit_s(const Rule& rule) const;
  bool stale(const Rule& rule, const std::optional<device::Timed>& reading,
             const Snapshot& s) const;
};

// ---- one rule on one device

// The maximum age of evidence. A slope does not age like a level: processes are listed as rarely as
// every ten minutes, and a line over the window is valid until the next list.
double AlertEngine::Impl::stale_limit_s(const Rule& rule) const {
  return rule.condition == "grows" ? std::max(options.stale_after_s, rule.window_s / 4)
                                   : options.stale_after_s;
}

bool AlertEngine::Impl::stale(const Rule& rule, const std::optional<device::Timed>& reading,
                              const Snapshot& s) const {
  const double limit = stale_limit_s(rule) * std::max(1.0, s.sampler.interval_scale);
  return !reading || seconds_between(reading->at, s.at) > limit;
}

void AlertEngine::Impl::step(const Rule& rule, const Subject& subject) {
  const Snapshot& s = *subject.snapshot;
  State& state = states[{rule.name, subject.id}];
  if (const auto why = why_void(subject, rule.metric); !why.empty()) {
    if (state.active()) resolve(state, std::string(why), s.wall);
    state.phase = Phase::quiet;
    return;
  }
  const auto reading = value_of(subject, rule.metric);
  if (stale(rule, reading, s)) {
    no_evidence(rule, state, s);
    if (state.active() && seconds_between(*state.evidence, s.at) > options.give_up_s)
      resolve(state, "no reading for too long", s.wall);
    return;
  }
  state.evidence = reading->at;
  const auto seen = state.measure.take(rule, *reading, state.active());
  if (!seen) return;
  const bool was_active = state.active();
  advance(rule, state, *seen);
  if (state.active()) describe(rule, subject, state, *seen);
  if (state.active() && !was_active) fire(state, s);
  if (was_active && !state.active()) resolve(state, recovery_of(rule, *seen), s.wall);
}

// Implements the state diagram of the header. Time is that of the readings: one bad value that no
// later reading confirms does not become an alert with time.
void AlertEngine::Impl::advance(const Rule& rule, State& state, const Sighting& seen) {
  const auto enter = [&](Phase phase) { state.phase = phase, state.since = seen.at; };
  const auto lasted = [&] { return seconds_between(state.since, seen.at) >= rule.for_s; };
  const bool bad = breached(rule, seen.measured);
  const bool good = cleared(rule, seen.measured);

  if (state.phase == Phase::quiet && bad) enter(Phase::pending), state.breached = seen.at;
  if (state.phase == Phase::pending && !bad) enter(Phase::quiet);
  if (state.phase == Phase::pending && lasted()) {
    enter(Phase::firing);
    return;
  }
  if (state.phase == Phase::firing && good) enter(Phase::recovering);
  if (state.phase == Phase::recovering && !good) enter(Phase::firing);
  if (state.phase == Phase::recovering && lasted()) enter(Phase::quiet);
}

void AlertEngine::Impl::no_evidence(const Rule& rule, State& state, const Snapshot& s) const {
  const bool long_ago =
      !state.evidence || seconds_between(*state.evidence, s.at) > stale_limit_s(rule);
  if (state.phase == Phase::pending && long_ago) state.phase = Phase::quiet;
  if (state.phase == Phase::recovering && long_ago) state.phase = Phase::firing;
}

void AlertEngine::Impl::describe(const Rule& rule, const Subject& subject, State& state,
                                 const Sighting& seen) {
  const double lasted = seconds_between(state.breached, seen.at);
  Alert& a = state.alert;
  a.id = rule.name + "/" + subject.id;
  a.rule = rule.name;
  a.device = subject.id;
  a.device_name = subject.gpu != nullptr ? subject.gpu->gpu.name : subject.title;
  a.severity = rule.severity;
  a.value = seen.measured;
  a.threshold = rule.threshold;
  a.unit = seen.baseline ? "percent" : std::string(unit_of(rule.metric));
  if (rule.condition == "grows") a.unit += "_per_minute";
  if (state.phase == Phase::recovering) return;  // the words stay those of the fault
  a.summary = summary_of(rule, subject, seen, lasted);
  a.cause = cause_of(rule, subject, seen, lasted);
  a.fix = fix_of(rule, subject, seen, lasted);
}

void AlertEngine::Impl::fire(State& state, const Snapshot& s) {
  Alert& a = state.alert;
  a.since = s.wall;
  a.resolved.reset();
  a.resolved_because.clear();
  a.silenced_until = silenced_until(a.rule, a.device);
  state.delivered = !a.silenced_until;
  out->push_back({Transition::Kind::fired, a, state.delivered});
}

// The end of an alert is delivered whenever its beginning was, silenced or not.
void AlertEngine::Impl::resolve(State& state, std::string because, WallTime wall) {
  state.phase = Phase::quiet;
  state.alert.resolved = wall;
  state.alert.resolved_because = std::move(because);
  out->push_back({Transition::Kind::resolved, state.alert, state.delivered});
  recent.push_front(state.alert);
  if (recent.size() > options.recent) recent.pop_back();
}

// ---- everything together

// Continues alerts that were firing before a restart: they are not delivered again, and their end
// is. A device that does not show up again has gone_after_s to do so.
void AlertEngine::Impl::resume(const Snapshot& s) {
  for (auto& [alert, delivered] : std::exchange(earlier, {})) {
    const auto lasted = std::chrono::duration_cast<Steady::duration>(s.wall - alert.since);
    last_seen.try_emplace(alert.device, s.at);
    State& state = states[{alert.rule, alert.device}];
    state.phase = Phase::firing;
    state.since = s.at;
    state.breached = s.at - std::max(lasted, Steady::duration::zero());
    state.evidence = s.at;
    state.alert = std::move(alert);
    state.delivered = delivered;
  }
}

bool AlertEngine::Impl::has_rule(const Key& key, const std::vector<Subject>& subjects) const {
  const auto rule = std::ranges::find(rules, key.first, &Rule::name);
  if (rule == rules.end() || !rule->enabled || replaced.contains(key.first)) return false;
  const auto subject = std::ranges::find(subjects, key.second, &Subject::id);
  return subject == subjects.end() || applies(*rule, *subject);
}

std::string AlertEngine::Impl::gone_text(const std::string& rule) const {
  const auto known = std::ranges::find(rules, rule, &Rule::name);
  const bool owned = known != rules.end() &&
                     scope_of(known->metric).value_or(device::Scope::gpu) == device::Scope::owner;
  return owned ? "the lease or pool is over" : "the device is gone";
}

// Ends what no longer has a rule or a device.
void AlertEngine::Impl::retire(const Snapshot& s, const std::vector<Subject>& subjects) {
  std::erase_if(last_seen, [&](const auto& seen) {
    return seconds_between(seen.second, s.at) > options.gone_after_s;
  });
  for (auto it = states.begin(); it != states.end();) {
    auto& [key, state] = *it;
    const bool rule = has_rule(key, subjects);
    if (rule && last_seen.contains(key.second)) {
      ++it;
      continue;
    }
    if (state.active())
      resolve(state, !rule ? "the rule was removed or changed" : gone_text(key.first), s.wall);
    it = states.erase(it);
  }
  replaced.clear();
}

std::optional<WallTime> AlertEngine::Impl::silenced_until(const std::string& rule,
                                                          const std::string& device) const {
  std::optional<WallTime> until;
  for (const auto& silence : silences)
    if (matches(silence, rule, device))
      until = std::max(until.value_or(silence.until), silence.until);
  return until;
}

void AlertEngine::Impl::settle_silences(WallTime wall) {
  std::erase_if(silences, [&](const Silence& silence) { return silence.until <= wall; });
  for (auto& [key, state] : states) {
    if (!state.active()) continue;
    state.alert.silenced_until = silenced_until(key.first, key.second);
    if (state.alert.silenced_until || state.delivered) continue;
    state.delivered = true;
    out->push_back({Transition::Kind::unsilenced, state.alert, true});
  }
}

AlertEngine::AlertEngine(std::vector<Rule> rules, AlertOptions options)
    : impl_(std::make_unique<Impl>()) {
  impl_->rules = std::move(rules);
  impl_->options = options;
}

AlertEngine::~AlertEngine() = default;

std::vector<Transition> AlertEngine::evaluate(const Snapshot& snapshot) {
  std::vector<Transition> out;
  impl_->out = &out;
  const auto subjects = subjects_of(snapshot);
  impl_->resume(snapshot);
  for (const auto& subject : subjects) impl_->last_seen[subject.id] = snapshot.at;
  impl_->retire(snapshot, subjects);
  impl_->settle_silences(snapshot.wall);
  for (const auto& subject : subjects)
    for (const auto& rule : impl_->rules)
      if (applies(rule, subject)) impl_->step(rule, subject);
  impl_->out = nullptr;
  return out;
}

void AlertEngine::set_rules(std::vector<Rule> rules) {
  for (const auto& now : rules) {
    const auto before = std::ranges::find(impl_->rules, now.name, &Rule::name);
    if (before != impl_->rules.end() &&
        (before->metric != now.metric || before->condition != now.condition ||
         before->window_s != now.window_s))
      impl_->replaced.insert(now.name);
  }
  impl_->rules = std::move(rules);
}

std::vector<Alert> AlertEngine::active() const {
  std::vector<Alert> alerts;
  for (const auto& [key, state] : impl_->states)
    if (state.active()) alerts.push_back(state.alert);
  std::ranges::sort(alerts, worse);
  return alerts;
}

const std::deque<Alert>& AlertEngine::recent() const noexcept { return impl_->recent; }

// ---- silences

void AlertEngine::silence(const std::string& rule, const std::string& device, WallTime until,
                          WallTime now) {
  require(until > now, "a silence must end in the future");
  std::vector<std::string_view> rules, devices;
  for (const auto& r : impl_->rules) rules.push_back(r.name);
  for (const auto& d : impl_->last_seen) devices.push_back(d.first);
  const auto check = [](const char* what, const std::string& name,
                        const std::vector<std::string_view>& known) {
    if (name != "*" && std::ranges::find(known, name) == known.end())
      throw Error(Code::not_found,
                  "no " + std::string(what) + " '" + name + "'" + did_you_mean(name, known));
  };
  check("rule", rule, rules);
  check("device", device, devices);
  std::erase_if(impl_->silences,
                [&](const Silence& s) { return s.rule == rule && s.device == device; });
  impl_->silences.push_back({rule, device, until});
}

void AlertEngine::unsilence(const std::string& rule, const std::string& device) {
  const auto removed = std::erase_if(
      impl_->silences, [&](const Silence& s) { return s.rule == rule && s.device == device; });
  if (removed == 0)
    throw Error(Code::not_found, "no silence for rule '" + rule + "' and device '" + device + "'");
}

// ---- JSON

Json AlertEngine::to_json() const {
  Json json{{"active", Json::array()},
            {"recent", Json::array()},
            {"rules", Json::array()},
            {"silences", Json::array()}};
  for (const auto& a : active()) json["active"].push_back(watch::to_json(a));
  for (const auto& a : impl_->recent) json["recent"].push_back(watch::to_json(a));
  for (const auto& r : impl_->rules) json["rules"].push_back(watch::to_json(r));
  for (const auto& s : impl_->silences) json["silences"].push_back(silence_json(s));
  return json;
}

Json AlertEngine::saved() const {
  Json all = to_json();
  Json active = Json::array();
  const auto add = [&](const Alert& alert, bool delivered) {
    active.push_back({{"alert", watch::to_json(alert)}, {"delivered", delivered}});
  };
  for (const auto& [key, state] : impl_->states)
    if (state.active()) add(state.alert, state.delivered);
  for (const auto& [alert, delivered] : impl_->earlier) add(alert, delivered);
  return Json{{"active", std::move(active)},
              {"recent", std::move(all["recent"])},
              {"silences", std::move(all["silences"])}};
}

void AlertEngine::restore(const Json& saved, WallTime now) try {
  for (const auto& s : saved.at("silences")) {
    Silence silence{s.at("rule"), s.at("device"), from_ms(s.at("until_ms"))};
    if (silence.until > now) impl_->silences.push_back(std::move(silence));
  }
  for (const auto& a : saved.at("recent"))
    if (auto alert = alert_from_json(a); alert && impl_->recent.size() < impl_->options.recent)
      impl_->recent.push_back(std::move(*alert));
  if (!saved.contains("active")) return;  // of an older version
  for (const auto& a : saved["active"])
    if (auto alert = alert_from_json(a.at("alert")); alert && !alert->resolved)
      impl_->earlier.push_back({std::move(*alert), a.at("delivered")});
} catch (const Json::exception& e) {
  log::warn("alerts: what was kept of an earlier run cannot be read: {}", e.what());
}

}  // namespace sluice::watch

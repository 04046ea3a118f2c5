// Turns snapshots into alerts: a state machine per rule and device, with no clock,
// lock or socket. Not thread-safe; the monitor holds its lock around it.
//
//   quiet ──past threshold──▶ pending ──for_s──▶ firing ──past clear──▶ recovering
//     ▲                          │                 ▲                        │ │
//     └──────── not any more ────┘                 └───── not any more ─────┘ │
//     └──────────────────────────── for_s: resolved ──────────────────────────┘
//
// A reading that is absent or older than `stale_after_s` is no evidence: it
// neither fires nor resolves. A pending breach is forgotten when evidence stays
// away for `stale_after_s`; a firing alert is resolved, with the reason said,
// when its GPU is lost (only health rules speak for a lost GPU), when the device
// has been gone for `gone_after_s`, when there was no reading for `give_up_s`,
// or when its rule is gone.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "watch/alert.h"
#include "watch/snapshot.h"

namespace sluice::watch {

// A notification.
struct Transition {
  enum class Kind { fired, resolved, unsilenced };  // the last: still wrong after a silence ended
  Kind kind;
  Alert alert;
  bool deliver = true;  // false when silenced: show it on the page only
};

struct Silence {
  std::string rule, device;  // "*" means any
  WallTime until;
};

struct AlertOptions {
  double stale_after_s = 30;  // times sampler.interval_scale; "grows": a quarter of its window
  double gone_after_s = 60;
  double give_up_s = 900;
  std::size_t recent = 100;  // resolved alerts that are remembered
};

class AlertEngine {
 public:
  // Rules must have no problems().
  explicit AlertEngine(std::vector<Rule> rules, AlertOptions options = {});
  ~AlertEngine();

  // `now` is snapshot.at and snapshot.wall; neither may go backwards by much (a
  // step back of the wall clock only shows in the texts).
  std::vector<Transition> evaluate(const Snapshot& snapshot);

  // Alerts of rules that are gone or disabled resolve at the next evaluate.
  void set_rules(std::vector<Rule> rules);

  std::vector<Alert> active() const;                 // worst first, then oldest
  const std::deque<Alert>& recent() const noexcept;  // resolved ones, newest first

  // Throws not_found when no rule or no device of the last snapshot has that name
  // ("*" is always known), invalid_argument when `until` is not after `now`.
  void silence(const std::string& rule, const std::string& device, WallTime until, WallTime now);
  // Throws not_found when there is no such silence.
  void unsilence(const std::string& rule, const std::string& device);

  // {"active": […], "recent": […], "rules": […], "silences": […]}
  Json to_json() const;

  // The state kept across a restart: active alerts, which then neither fire nor are
  // forgotten, silences and recent alerts. For an engine that has evaluated nothing
  // yet; ignores what it does not understand.
  Json saved() const;
  void restore(const Json& saved, WallTime now);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::watch

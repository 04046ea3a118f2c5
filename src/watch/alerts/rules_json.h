// Alert rules as they stand in a configuration file ([[alerts]] in TOML, "alerts"
// in JSON) and in /v1/alerts.
//
// A file changes the default rules: an entry whose name is a default's changes
// the fields it gives, any other name adds a rule. Where a threshold is given
// without `clear`, the default's distance between the two is kept; a new rule
// without `clear` clears at its threshold.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "watch/alert.h"

namespace sluice::watch {

// A complete rule. Throws invalid_argument with every problem in the message.
Rule rule_from_json(const Json& json);
Json to_json(const Rule& rule);

// `entries` (an array) over `base`. Every problem goes to `found`, with the
// entry's index in `entries` and the field ("" for the entry as a whole), so that
// the loader can say file and line. The result is usable only when nothing was
// found.
std::vector<Rule> rules_from_json(const Json& entries, std::vector<RuleProblem>& found,
                                  std::vector<Rule> base = default_rules());

// JSON schema (draft 2020-12) of one entry.
Json rule_schema();

}  // namespace sluice::watch

// Finds the settings that differ between two loads, and applies those that may change at run time.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/common/program_settings.h"
#include "watch/alerts/rules_json.h"

namespace sluice::cli {

namespace {

// Every setting outside lists, in the order of declaration.
std::vector<Setting> flat(const Settings& settings) {
  std::vector<Setting> all;
  for (const auto& section : settings.sections())
    all.insert(all.end(), section.settings.begin(), section.settings.end());
  return all;
}

// The origins of `key` and of its elements as `loaded` has them.
void copy_origins(Origins& running, const Origins& loaded, const std::string& key) {
  const auto about = [&](const auto& entry) {
    return entry.first == key || entry.first.starts_with(key + ".");
  };
  std::erase_if(running, about);
  for (const auto& entry : loaded)
    if (about(entry)) running.insert(entry);
}

template <class Items>
std::string count_of(const Items& items) {
  return std::to_string(items.size()) + (items.size() == 1 ? " entry" : " entries");
}

Json dump(const ListSection& list) {
  auto json = Json::array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto element = list.at(i);
    for (const auto& setting : element.settings) json.push_back(to_json(setting.variable->read()));
  }
  return json;
}

Reload compare(ProgramSettings& running, ProgramSettings& loaded, bool apply) {
  Reload reload;
  const auto before = bind(running), after = bind(loaded);
  const auto old_settings = flat(before), new_settings = flat(after);
  for (std::size_t i = 0; i < old_settings.size(); ++i) {
    const auto& was = old_settings[i];
    const auto from = was.variable->read(), to = new_settings[i].variable->read();
    if (same(from, to)) continue;
    (was.live ? reload.now : reload.restart)
        .push_back({was.key(), shown(was.rule, from), shown(was.rule, to)});
    if (!apply || !was.live) continue;
    was.variable->write(to);
    copy_origins(running.origins, loaded.origins, was.key());
  }
  if (dump(before.lists().front()) != dump(after.lists().front()))
    reload.restart.push_back(
        {"autoscaling", count_of(running.autoscaling), count_of(loaded.autoscaling)});
  if (running.watch.rules != loaded.watch.rules) {
    reload.now.push_back({"alerts", count_of(running.watch.rules), count_of(loaded.watch.rules)});
    if (apply) {
      running.watch.rules = loaded.watch.rules;
      copy_origins(running.origins, loaded.origins, "alerts");
    }
  }
  return reload;
}

}  // namespace

std::string to_string(const Change& change) {
  if (change.from == change.to) return change.key + ": changed";
  const auto show = [](const std::string& text) { return text.empty() ? "\"\"" : text; };
  return change.key + ": " + show(change.from) + " -> " + show(change.to);
}

Reload diff(const ProgramSettings& running, const ProgramSettings& loaded) {
  auto a = running, b = loaded;
  return compare(a, b, false);
}

Reload apply_live(ProgramSettings& running, const ProgramSettings& loaded) {
  auto copy = loaded;
  auto reload = compare(running, copy, true);
  running.warnings = loaded.warnings;
  return reload;
}

}  // namespace sluice::cli

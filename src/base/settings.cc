#include "base/settings.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/nearest.h"

namespace sluice {

namespace {

constexpr std::size_t kMaxHintedBytes = 64;  // a longer word is no slip of the pen

std::string join(std::string_view section, std::string_view name) {
  return section.empty() ? std::string(name) : fmt::format("{}.{}", section, name);
}

// A key from outside, fit for a message.
std::string plain(std::string_view key) {
  const auto text = in_quotes(key);
  return text.substr(1, text.size() - 2);
}

const Setting* find_in(const Section& section, std::string_view name) {
  const auto found = std::ranges::find(section.settings, name, &Setting::name);
  return found == section.settings.end() ? nullptr : &*found;
}

std::string hint(std::string_view word, const std::vector<std::string_view>& known) {
  return word.size() <= kMaxHintedBytes ? did_you_mean(word, known) : "";
}

std::vector<std::string_view> names_of(const Section& section) {
  std::vector<std::string_view> names;
  for (const auto& setting : section.settings) names.push_back(setting.name);
  return names;
}

std::string at(const Document& document, int line) {
  return line > 0 ? fmt::format("{}:{}", document.name, line) : document.name;
}

// Returns whether a NaN or an infinity is anywhere in a tree: JSON has no way to write them.
bool holds_no_number(const Node& node) {
  const auto in_member = [](const Member& member) { return holds_no_number(member.value); };
  return (node.kind == Node::Kind::number && !std::isfinite(node.number)) ||
         std::ranges::any_of(node.items, holds_no_number) ||
         std::ranges::any_of(node.members, in_member);
}

// One for each field of an element that is, or has in it, no finite number.
std::vector<ElementProblem> not_finite(const Node& list) {
  std::vector<ElementProblem> found;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    for (const auto& member : list.items[i].members)
      if (holds_no_number(member.value)) found.push_back({i, member.key, "is not a finite number"});
  }
  return found;
}

// Returns whether `problem` is about a field that is among `others` already.
bool known_from(const std::vector<ElementProblem>& others, const ElementProblem& problem) {
  return std::ranges::any_of(others, [&](const ElementProblem& other) {
    return other.index == problem.index && other.field == problem.field;
  });
}

// The setting that a check_together sentence begins with, or null.
const Setting* subject(const Section& section, std::string_view sentence) {
  return find_in(section, sentence.substr(0, sentence.find_first_of(" :.,")));
}

}  // namespace

std::string to_string(const Origin& origin) {
  switch (origin.kind) {
    case Origin::Kind::default_value: return "default";
    case Origin::Kind::profile: return "profile " + origin.name;
    case Origin::Kind::file: return fmt::format("file {}:{}", origin.name, origin.line);
    case Origin::Kind::environment: return "env " + origin.name;
    case Origin::Kind::flag: return "flag " + origin.name;
  }
  return "unknown";
}

std::string Setting::key() const { return join(section, name); }

std::string Setting::variable_name() const {
  std::string out = "SLUICE_" + (section.empty() ? "" : section + "_") + name;
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return out;
}

Origin Settings::origin_of(const std::string& key) const {
  const auto found = origins_->find(key);
  return found == origins_->end() ? Origin{} : found->second;
}

const Setting* Settings::find(std::string_view key) const {
  for (const auto& section : sections_)
    for (const auto& setting : section.settings)
      if (setting.key() == key) return &setting;
  return nullptr;
}

const Setting* Settings::find_top(std::string_view name) const {
  const auto top = std::ranges::find(sections_, "", &Section::name);
  return top == sections_.end() ? nullptr : find_in(*top, name);
}

// ---- a file -----------------------------------------------------------------

void Settings::load(const Document& document, Problems& problems) {
  for (const auto& entry : document.root.members) load_entry(document, entry, problems);
}

void Settings::load_entry(const Document& document, const Member& entry, Problems& problems) {
  const auto section = std::ranges::find(sections_, entry.key, &Section::name);
  const auto list = std::ranges::find(lists_, entry.key, &ListSection::name);
  const auto table = std::ranges::find(tables_, entry.key, &TableSection::name);
  const auto where = at(document, entry.line);
  if (entry.key.empty())
    problems.push_back({where, "", "a name is empty"});
  else if (list != lists_.end())
    load_list(*list, entry.value, document, problems);
  else if (table != tables_.end())
    load_table(*table, entry.value, document, problems);
  else if (section != sections_.end() && entry.value.kind == Node::Kind::table)
    load_section(*section, entry.value, document, problems);
  else if (section != sections_.end())
    problems.push_back(
        {where, entry.key,
         fmt::format("must be a table of settings, not {}", kind_name(entry.value.kind))});
  else if (const auto* setting = find_top(entry.key))
    take(*setting, entry.value, {where, {Origin::Kind::file, document.name, entry.line}}, problems);
  else if (entry.key != "$schema")  // an editor's note on which schema to use
    problems.push_back({where, plain(entry.key), unknown_top(entry.key)});
}

void Settings::load_section(const Section& section, const Node& table, const Document& document,
                            Problems& problems) {
  for (const auto& entry : table.members) {
    const auto where = at(document, entry.line);
    if (const auto* setting = find_in(section, entry.key))
      take(*setting, entry.value, {where, {Origin::Kind::file, document.name, entry.line}},
           problems);
    else
      problems.push_back(
          {where, join(section.name, plain(entry.key)), unknown_in(section, entry.key)});
  }
}

void Settings::load_list(const ListSection& list, const Node& node, const Document& document,
                         Problems& problems) {
  if (node.kind != Node::Kind::array) {
    problems.push_back({at(document, node.line), list.name,
                        fmt::format("must be a list of tables, [[{}]]", list.name)});
    return;
  }
  list.clear();
  for (const auto& item : node.items) {
    if (item.kind != Node::Kind::table) {
      problems.push_back({at(document, item.line), list.name,
                          fmt::format("must hold tables, not {}", kind_name(item.kind))});
      continue;
    }
    const auto element = list.append(item);
    load_section(element, item, document, problems);
    std::vector<std::string> found;
    if (element.check_together) element.check_together(found);
    for (const auto& cause : found)
      problems.push_back({at(document, item.line), element.name, cause});
  }
}

void Settings::load_table(const TableSection& table, const Node& node, const Document& document,
                          Problems& problems) {
  if (node.kind != Node::Kind::array) {
    problems.push_back({at(document, node.line), table.name,
                        fmt::format("must be a list of tables, [[{}]]", table.name)});
    return;
  }
  auto found = not_finite(node);
  std::vector<ElementProblem> of_owner;
  table.load(to_json(node), of_owner);
  for (auto& problem : of_owner)
    if (!known_from(found, problem)) found.push_back(std::move(problem));
  for (const auto& problem : found) {
    const bool known = problem.index < node.items.size();
    const Node* item = known ? &node.items[problem.index] : nullptr;
    int line = item != nullptr ? item->line : node.line;
    if (item != nullptr)
      for (const auto& member : item->members)
        if (member.key == problem.field) line = member.line;
    const auto name = fmt::format("{}[{}]", table.name, problem.index);
    problems.push_back({at(document, line),
                        problem.field.empty() ? name : join(name, problem.field), problem.cause});
  }
  if (found.empty()) (*origins_)[table.name] = {Origin::Kind::file, document.name, node.line};
}

// ---- one value --------------------------------------------------------------

void Settings::take(const Setting& setting, const Node& value, const Source& source,
                    Problems& problems) {
  if (setting.rule.arity == Arity::map && value.kind == Node::Kind::table)
    return take_map(setting, value, source, problems);
  std::string cause;
  const Node accepted = accept(setting.rule, value, cause);
  if (!cause.empty()) {
    problems.push_back({source.where, setting.key(), cause});
    return;
  }
  setting.variable->write(accepted);
  (*origins_)[setting.key()] = source.origin;
}

// A map is changed element by element: what is not named stays as it was.
void Settings::take_map(const Setting& setting, const Node& table, const Source& source,
                        Problems& problems) {
  Node now = setting.variable->read();
  for (const auto& member : table.members) {
    auto from = source;
    if (member.line > 0 && source.origin.kind == Origin::Kind::file) {
      from.origin.line = member.line;
      from.where = fmt::format("{}:{}", source.origin.name, member.line);
    }
    auto cause = name_cause(member.key);
    Node accepted;
    if (cause.empty()) accepted = accept(element_of(setting.rule), member.value, cause);
    if (!cause.empty()) {
      problems.push_back({from.where, join(setting.key(), plain(member.key)), cause});
      continue;
    }
    now.members.push_back({member.key, 0, std::move(accepted)});  // the last of a name wins
    (*origins_)[join(setting.key(), member.key)] = from.origin;
  }
  setting.variable->write(now);
}

void Settings::preset(std::string_view key, const Node& value, const Origin& origin) {
  const auto* setting = find(key);
  if (setting == nullptr) return;
  std::vector<Problem> none;
  take(*setting, value, {to_string(origin), origin}, none);
}

void Settings::check(Problems& problems) {
  for (const auto& section : sections_) {
    std::vector<std::string> found;
    if (section.check_together) section.check_together(found);
    for (const auto& cause : found) {
      const auto* setting = subject(section, cause);
      const auto origin = setting != nullptr ? origin_of(setting->key()) : Origin{};
      const auto where = origin.kind == Origin::Kind::file
                             ? fmt::format("{}:{}", origin.name, origin.line)
                             : to_string(origin);
      problems.push_back({where, section.name, cause});
    }
  }
}

// ---- what is unknown --------------------------------------------------------

std::vector<std::string_view> Settings::section_names() const {
  std::vector<std::string_view> names;
  for (const auto& section : sections_)
    if (!section.name.empty()) names.push_back(section.name);
  for (const auto& list : lists_) names.push_back(list.name);
  for (const auto& table : tables_) names.push_back(table.name);
  return names;
}

// "; 'port' is a setting of [serve]" where a name exists, only not here.
std::string Settings::elsewhere(std::string_view name) const {
  for (const auto& section : sections_)
    if (find_in(section, name) != nullptr)
      return section.name.empty()
                 ? fmt::format("; '{}' stands at the top, outside every section", name)
                 : fmt::format("; '{}' is a setting of [{}]", name, section.name);
  return {};
}

std::string Settings::unknown_top(std::string_view name) const {
  auto known = section_names();
  for (const auto& section : sections_)
    if (section.name.empty())
      for (const auto setting : names_of(section)) known.push_back(setting);
  const auto other = elsewhere(name);
  return "no such setting or section" + (other.empty() ? hint(name, known) : other);
}

std::string Settings::unknown_in(const Section& section, std::string_view name) const {
  const auto other = elsewhere(name);
  return fmt::format("no such setting in [{}]{}", section.name.substr(0, section.name.find('[')),
                     other.empty() ? hint(name, names_of(section)) : other);
}

std::string Settings::unknown_key(std::string_view key) const {
  std::vector<std::string> keys;
  for (const auto& section : sections_)
    for (const auto& setting : section.settings) keys.push_back(setting.key());
  const std::vector<std::string_view> known(keys.begin(), keys.end());
  const auto other = elsewhere(key);
  return "no such setting" + (other.empty() ? hint(key, known) : other);
}

}  // namespace sluice

// Every setting of the program, type-erased: one list that loading, checking,
// showing and reloading walk.
//
//   Origins origins;
//   Settings settings(origins);
//   settings.add("serve", "the HTTP server", config.serve);   // config has fields()
//   std::vector<Problem> problems;
//   settings.load(read_document("sluice.toml", problems), problems);
//   settings.load(environment, problems);
//   settings.load(flags, problems);
//   settings.check(problems);
//   throw_if_any(problems);
//
// Later layers win. A value that is wrong is not taken, is reported, and the one
// before it stays. Nothing is clamped and nothing unknown is skipped in silence.
// Not thread-safe. What was added must outlive the Settings.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/config.h"
#include "base/document.h"
#include "base/settings_value.h"

namespace sluice {

using Environment = std::map<std::string, std::string>;

// The source of a value.
struct Origin {
  enum class Kind { default_value, profile, file, environment, flag };

  Kind kind = Kind::default_value;
  std::string name = {};  // of the profile, file, variable or flag
  int line = 0;           // in the file
};

// "default", "profile a100-80", "file sluice.toml:12", "env GPU_ENABLED", "flag --port"
std::string to_string(const Origin& origin);

// Keyed by setting ("serve.port"; an element of a map: "gpu.batch_sizes.scout"). A setting that is
// not in it has its default.
using Origins = std::map<std::string, Origin>;

// A value given on the command line: {"--port", "serve.port", "8080"}.
struct Flag {
  std::string flag, key, value;
};

// One declared setting and the variable that holds it.
struct Setting {
  std::string section, name;
  std::string_view help;
  ValueRule rule;
  std::string_view env_name, env_pattern;
  EnvReader env_reader = nullptr;
  bool live = false;
  std::shared_ptr<Variable> variable;
  Node initial;  // the default

  std::string key() const;            // "serve.port"
  std::string variable_name() const;  // "SLUICE_SERVE_PORT"
};

// A [section] of the file; the name is empty for the settings at the top.
struct Section {
  std::string name, help;
  std::vector<Setting> settings;
  std::function<void(std::vector<std::string>&)> check_together;
};

// A [[section]] that may be repeated, one element of a vector each.
struct ListSection {
  std::string name, help;
  bool live = false;
  Section pattern;                                   // of a fresh element: names, ranges, defaults
  std::function<Section(const Node& table)> append;  // adds an element and binds it
  std::function<void()> clear;
  std::function<Section(std::size_t)> at;
  std::function<std::size_t()> size;
};

// One thing wrong with an element of a TableSection.
struct ElementProblem {
  std::size_t index;
  std::string field;  // empty when it is about the element as a whole
  std::string cause;
};

// A [[section]] whose owner reads and describes it itself.
struct TableSection {
  std::string name, help;
  bool live = false;
  std::function<void(const Json& elements, std::vector<ElementProblem>&)> load;
  std::function<Json()> value;                        // an array: what holds now
  std::function<std::vector<std::string>()> summary;  // of each element, for people
  std::function<Json()> element_schema;               // JSON Schema of one element
};

template <class C>
Section make_section(std::string name, std::string help, C& config) {
  Section section{std::move(name), std::move(help), {}, {}};
  const C defaults{};
  const auto declare = [&](const auto& f) {
    auto& member = config.*f.member;
    auto rule = rule_for(member);
    rule.low = f.low, rule.high = f.high, rule.choices = f.choices, rule.check = f.text_check;
    rule.hidden = rule.hidden || f.hidden;
    auto variable = std::make_shared<VariableOf<std::remove_reference_t<decltype(member)>>>(member);
    auto initial = to_node(defaults.*f.member);
    section.settings.push_back({section.name, std::string(f.name), f.help, rule, f.env_name,
                                f.env_pattern, f.env_reader, f.may_reload, std::move(variable),
                                std::move(initial)});
  };
  std::apply([&](const auto&... f) { (declare(f), ...); }, C::fields());
  if constexpr (requires(std::vector<std::string> & found) { config.check_together(found); })
    section.check_together = [&config](auto& found) { config.check_together(found); };
  return section;
}

class Settings {
 public:
  explicit Settings(Origins& origins) : origins_(&origins) {}

  template <class C>
  void add(std::string name, std::string help, C& config) {
    sections_.push_back(make_section(std::move(name), std::move(help), config));
  }

  // `start` makes the element that a table begins from, e.g. the default of that name.
  template <class C>
  void add_list(
      std::string name, std::string help, bool live, std::vector<C>& items,
      std::function<C(const Node& table)> start = [](const Node&) { return C{}; }) {
    auto fresh = std::make_shared<C>();  // keeps the pattern's variables alive
    auto pattern = make_section(name, help, *fresh);
    pattern.check_together = [fresh](std::vector<std::string>&) {};
    const auto bind = [&items, name](std::size_t i) {
      return make_section(name + "[" + std::to_string(i) + "]", "", items[i]);
    };
    const auto append = [&items, bind, start = std::move(start)](const Node& table) {
      items.push_back(start(table));
      return bind(items.size() - 1);
    };
    lists_.push_back({std::move(name), std::move(help), live, std::move(pattern), append,
                      [&items] { items.clear(); }, bind, [&items] { return items.size(); }});
  }

  void add_table(TableSection table) { tables_.push_back(std::move(table)); }

  // `reserved`: variables named SLUICE_... that mean something but are no settings;
  // "SLUICE_FAKE_*" stands for all that begin so.
  void load(const Document& document, std::vector<Problem>& problems);
  void load(const Environment& environment, const std::vector<std::string_view>& reserved,
            std::vector<Problem>& problems);
  void load(const std::vector<Flag>& flags, std::vector<Problem>& problems);

  // A default that depends on something else, such as gpu_type. `value` must be right.
  void preset(std::string_view key, const Node& value, const Origin& origin);

  // Checks constraints between several settings.
  void check(std::vector<Problem>& problems);

  const std::vector<Section>& sections() const noexcept { return sections_; }
  const std::vector<ListSection>& lists() const noexcept { return lists_; }
  const std::vector<TableSection>& tables() const noexcept { return tables_; }
  Origin origin_of(const std::string& key) const;
  const Setting* find(std::string_view key) const;  // null when there is none

 private:
  // The place of a value: its name in messages, and its origin.
  struct Source {
    std::string where;
    Origin origin;
  };
  using Problems = std::vector<Problem>;

  void load_entry(const Document& document, const Member& entry, Problems& problems);
  void load_section(const Section& section, const Node& table, const Document& document,
                    Problems& problems);
  void load_list(const ListSection& list, const Node& node, const Document& document,
                 Problems& problems);
  void load_table(const TableSection& table, const Node& node, const Document& document,
                  Problems& problems);
  void load_flag(const Flag& flag, Problems& problems);
  void load_variables(const Setting& setting, const Environment& environment, Problems& problems);
  void load_pattern(const Setting& setting, std::string_view pattern,
                    const Environment& environment, Problems& problems);

  void take(const Setting& setting, const Node& value, const Source& source, Problems& problems);
  void take_map(const Setting& setting, const Node& table, const Source& source,
                Problems& problems);
  void take_text(const Setting& setting, std::string_view text, const Source& source,
                 Problems& problems);
  void take_element(const Setting& setting, const std::string& element, std::string_view text,
                    const Source& source, Problems& problems);

  const Setting* find_top(std::string_view name) const;
  std::vector<std::string_view> section_names() const;
  std::string elsewhere(std::string_view name) const;
  std::string unknown_top(std::string_view name) const;
  std::string unknown_in(const Section& section, std::string_view name) const;
  std::string unknown_key(std::string_view key) const;

  Origins* origins_;
  std::vector<Section> sections_;
  std::vector<ListSection> lists_;
  std::vector<TableSection> tables_;
};

}  // namespace sluice

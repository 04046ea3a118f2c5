#include "base/settings_show.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace sluice {

namespace {

constexpr std::size_t kWidth = 80;
constexpr std::size_t kOriginColumn = 48;

// Columns that `text` takes, for text without wide characters.
std::size_t columns(std::string_view text) {
  std::size_t n = 0;
  for (const char c : text) n += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return n;
}

void wrap(std::string& out, std::string_view words, std::size_t indent) {
  std::istringstream in{std::string(words)};
  std::string line(indent, ' '), word;
  while (in >> word) {
    if (line.size() > indent && columns(line) + columns(word) + 1 > kWidth) {
      out += line + "\n";
      line.assign(indent, ' ');
    }
    line += (line.size() > indent ? " " : "") + word;
  }
  if (line.size() > indent) out += line + "\n";
}

// "  port = 8000                       file sluice.toml:3"; the origin on its own
// line when the value is long.
void value_line(std::string& out, const std::string& name, const std::string& value,
                const std::string& origin) {
  std::string line = "  " + name + " = " + (value.empty() ? "\"\"" : value);
  if (columns(line) >= kOriginColumn || kOriginColumn + columns(origin) > kWidth) {
    out += line + "\n";
    line = columns(origin) + 6 < kWidth - kOriginColumn ? "" : "      ";
  }
  if (columns(line) < kOriginColumn && kOriginColumn + columns(origin) <= kWidth)
    line += std::string(kOriginColumn - columns(line), ' ');
  out += line + origin + "\n";
}

void help_lines(std::string& out, const Setting& setting) {
  std::string words(setting.help);
  if (const auto range = range_text(setting.rule); !range.empty()) words += " (" + range + ")";
  if (setting.live) words += " [reloads]";
  wrap(out, words, 6);
}

void text_of(std::string& out, const Settings& settings, const Setting& setting) {
  const Node value = setting.variable->read();
  if (setting.rule.arity != Arity::map || value.members.empty())
    value_line(out, setting.name, shown(setting.rule, value),
               to_string(settings.origin_of(setting.key())));
  else
    for (const auto& m : value.members)
      value_line(out, setting.name + "." + m.key, shown(element_of(setting.rule), m.value),
                 to_string(settings.origin_of(setting.key() + "." + m.key)));
  help_lines(out, setting);
}

void text_of(std::string& out, const Settings& settings, const TableSection& table) {
  out += "\n[[" + table.name + "]]  " + table.help + "\n";
  out += "  from " + to_string(settings.origin_of(table.name)) + "\n";
  for (const auto& line : table.summary()) wrap(out, line, 2);
}

Json json_of(const Settings& settings, const Setting& setting) {
  const Node value = setting.variable->read();
  Json row{{"key", setting.key()},
           {"value", shown_json(setting.rule, value)},
           {"default", shown_json(setting.rule, setting.initial)},
           {"origin", to_string(settings.origin_of(setting.key()))},
           {"type", type_name(setting.rule)},
           {"range", range_text(setting.rule)},
           {"live", setting.live},
           {"variable", setting.variable_name()},
           {"help", setting.help}};
  if (!setting.env_name.empty()) row["also"] = setting.env_name;
  if (!setting.env_pattern.empty()) row["also"] = setting.env_pattern;
  if (setting.rule.arity == Arity::map)
    for (const auto& m : value.members)
      row["origins"][m.key] = to_string(settings.origin_of(setting.key() + "." + m.key));
  return row;
}

void add_value(Json& values, const Setting& setting) {
  auto& target = setting.section.empty() ? values : values[setting.section];
  target[setting.name] = shown_json(setting.rule, setting.variable->read());
}

Json element_values(const Section& element) {
  Json values = Json::object();
  for (const auto& setting : element.settings)
    values[setting.name] = shown_json(setting.rule, setting.variable->read());
  return values;
}

Json schema_of_setting(const Setting& setting) {
  Json schema = schema_of(setting.rule);
  schema["description"] = setting.help;
  schema["default"] = shown_json(setting.rule, setting.initial);
  if (setting.live) schema["x-reloads"] = true;
  return schema;
}

void add_properties(Json& object, const Section& section) {
  for (const auto& setting : section.settings)
    object["properties"][setting.name] = schema_of_setting(setting);
}

Json object_schema(std::string_view description) {
  Json schema{{"type", "object"}, {"properties", Json::object()}, {"additionalProperties", false}};
  if (!description.empty()) schema["description"] = description;
  return schema;
}

std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string code(std::string_view text) { return text.empty() ? "" : "`" + cell(text) + "`"; }

void markdown_rows(std::string& out, const Section& section, bool in_list) {
  out +=
      "\n| setting | type | default | allowed | environment | on SIGHUP | meaning |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const auto& s : section.settings) {
    std::string variables = in_list ? "" : code(s.variable_name());
    for (const auto other : {s.env_name, s.env_pattern})
      if (!other.empty()) variables += " " + code(other);
    const auto default_text = shown(s.rule, s.initial);
    out += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", code(s.name), type_name(s.rule),
                       code(default_text.empty() ? "\"\"" : default_text), code(range_text(s.rule)),
                       variables,
                       in_list  ? ""
                       : s.live ? "reloads"
                                : "restart",
                       cell(s.help));
  }
}

}  // namespace

std::string settings_text(const Settings& settings) {
  std::string out;
  for (const auto& section : settings.sections()) {
    if (!out.empty()) out += "\n";
    out += section.name.empty() ? section.help + "\n"
                                : "[" + section.name + "]  " + section.help + "\n";
    for (const auto& setting : section.settings) text_of(out, settings, setting);
  }
  for (const auto& list : settings.lists()) {
    if (list.size() == 0) out += "\n[[" + list.name + "]]  " + list.help + "\n  none\n";
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto element = list.at(i);
      out += fmt::format("\n[[{}]] {}  {}\n", list.name, i, list.help);
      for (const auto& setting : element.settings) text_of(out, settings, setting);
    }
  }
  for (const auto& table : settings.tables()) text_of(out, settings, table);
  return out;
}

Json settings_json(const Settings& settings) {
  Json values = Json::object(), rows = Json::array();
  for (const auto& section : settings.sections())
    for (const auto& setting : section.settings) {
      add_value(values, setting);
      rows.push_back(json_of(settings, setting));
    }
  for (const auto& list : settings.lists()) {
    values[list.name] = Json::array();
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto element = list.at(i);
      values[list.name].push_back(element_values(element));
      for (const auto& setting : element.settings) rows.push_back(json_of(settings, setting));
    }
  }
  for (const auto& table : settings.tables()) {
    values[table.name] = table.value();
    rows.push_back({{"key", table.name},
                    {"value", table.value()},
                    {"origin", to_string(settings.origin_of(table.name))},
                    {"type", "list of tables"},
                    {"live", table.live},
                    {"help", table.help}});
  }
  return {{"values", std::move(values)}, {"settings", std::move(rows)}};
}

Json settings_schema(const Settings& settings) {
  Json schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
              {"title", "Sluice configuration"}};
  schema.update(object_schema(""));
  schema["properties"]["$schema"] = {{"type", "string"}};
  for (const auto& section : settings.sections()) {
    if (section.name.empty()) {
      add_properties(schema, section);
      continue;
    }
    auto& object = schema["properties"][section.name] = object_schema(section.help);
    add_properties(object, section);
  }
  for (const auto& list : settings.lists()) {
    Json element = object_schema("");
    add_properties(element, list.pattern);
    schema["properties"][list.name] = {{"type", "array"},
                                       {"description", list.help},
                                       {"items", std::move(element)},
                                       {"default", Json::array()}};
  }
  for (const auto& table : settings.tables())
    schema["properties"][table.name] = {
        {"type", "array"}, {"description", table.help}, {"items", table.element_schema()}};
  return schema;
}

std::string settings_markdown(const Settings& settings) {
  std::string out;
  for (const auto& section : settings.sections()) {
    out += section.name.empty() ? "\n## At the top of the file\n"
                                : "\n## [" + section.name + "]\n\n" + section.help + "\n";
    markdown_rows(out, section, false);
  }
  for (const auto& list : settings.lists()) {
    out += fmt::format("\n## [[{}]]\n\n{}; may be repeated. On SIGHUP: {}.\n", list.name, list.help,
                       list.live ? "reloads" : "restart");
    markdown_rows(out, list.pattern, true);
  }
  for (const auto& table : settings.tables())
    out += fmt::format("\n## [[{}]]\n\n{}; may be repeated. On SIGHUP: {}.\n", table.name,
                       table.help, table.live ? "reloads" : "restart");
  return out;
}

}  // namespace sluice

// Formats the value and the rule of a setting as text, as JSON and as a JSON schema.
#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/settings_value.h"

namespace sluice {

namespace {

// Returns the value as a file has it, so that it can be read back.
std::string shown_one(const ValueRule& rule, const Node& value) {
  switch (rule.kind) {
    case ValueKind::boolean: return value.boolean ? "true" : "false";
    case ValueKind::integer: return std::to_string(value.integer);
    case ValueKind::number: return fmt::format("{}", value.number);
    case ValueKind::duration: return to_string(Duration{value.number});
    default: return printable(value.text);
  }
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos && text.size() < 10;
}

Json json_one(const ValueRule& rule, const Node& value) {
  if (rule.kind == ValueKind::duration) return to_string(Duration{value.number});
  if (rule.kind == ValueKind::ident && is_number(value.text)) return std::stoi(value.text);
  return to_json(value);
}

std::string_view kind_word(ValueKind kind) {
  switch (kind) {
    case ValueKind::boolean: return "boolean";
    case ValueKind::integer: return "integer";
    case ValueKind::number: return "number";
    case ValueKind::text: return "text";
    case ValueKind::secret: return "secret";
    case ValueKind::duration: return "duration";
    case ValueKind::ident: return "integer or text";
  }
  return "value";
}

std::string bound_text(const ValueRule& rule, double value) {
  if (rule.kind == ValueKind::duration) return to_string(Duration{value});
  if (std::trunc(value) == value && std::abs(value) < 9e15)
    return std::to_string(static_cast<std::int64_t>(value));
  return fmt::format("{}", value);
}

Json bound_json(double value) {
  if (std::trunc(value) == value && std::abs(value) < 9e15) return static_cast<std::int64_t>(value);
  return value;
}

Json numeric_schema(const ValueRule& rule, const char* type) {
  Json schema{{"type", type}};
  if (rule.ranged()) {
    schema["minimum"] = bound_json(rule.low);
    schema["maximum"] = bound_json(rule.high);
  }
  return schema;
}

Json text_schema(const ValueRule& rule) {
  Json schema{{"type", "string"}};
  if (rule.hidden) schema["writeOnly"] = true;
  if (rule.choices.empty()) return schema;
  auto words = Json::array();
  std::string_view rest = rule.choices;
  for (auto end = rest.find('|'); end != rest.npos; end = rest.find('|')) {
    words.push_back(rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
  words.push_back(rest);
  schema["enum"] = std::move(words);
  return schema;
}

Json schema_one(const ValueRule& rule) {
  switch (rule.kind) {
    case ValueKind::boolean: return {{"type", "boolean"}};
    case ValueKind::integer: return numeric_schema(rule, "integer");
    case ValueKind::number: return numeric_schema(rule, "number");
    case ValueKind::text:
    case ValueKind::secret: return text_schema(rule);
    case ValueKind::duration:
      return {{"anyOf",
               {numeric_schema(rule, "number"),
                {{"type", "string"},
                 {"pattern", "^(?=.)([0-9.]+d)?([0-9.]+h)?([0-9.]+m)?([0-9.]+s)?([0-9.]+ms)?$"}}}}};
    case ValueKind::ident:
      return {{"anyOf", {{{"type", "integer"}, {"minimum", 0}}, {{"type", "string"}}}}};
  }
  return Json::object();
}

}  // namespace

std::string shown(const ValueRule& rule, const Node& value) {
  if (rule.hidden) return std::string(Secret(value.text).masked());
  if (rule.arity == Arity::one) return shown_one(rule, value);
  std::string text;
  for (const auto& item : value.items) text += (text.empty() ? "" : ", ") + shown_one(rule, item);
  for (const auto& member : value.members)
    text += (text.empty() ? "" : ", ") + member.key + "=" + shown_one(rule, member.value);
  return rule.arity == Arity::list ? "[" + text + "]" : "{" + text + "}";
}

Json shown_json(const ValueRule& rule, const Node& value) {
  if (rule.hidden) return Secret(value.text).masked();
  if (rule.arity == Arity::one) return json_one(rule, value);
  auto json = rule.arity == Arity::list ? Json::array() : Json::object();
  for (const auto& item : value.items) json.push_back(json_one(rule, item));
  for (const auto& member : value.members) json[member.key] = json_one(rule, member.value);
  return json;
}

std::string type_name(const ValueRule& rule) {
  const std::string word(kind_word(rule.kind));
  switch (rule.arity) {
    case Arity::one: return word;
    case Arity::list: return "list of " + word;
    case Arity::map: return "table of " + word;
  }
  return word;
}

std::string range_text(const ValueRule& rule) {
  if (!rule.choices.empty()) return std::string(rule.choices);
  if (!rule.ranged()) return {};
  return bound_text(rule, rule.low) + ".." + bound_text(rule, rule.high);
}

Json schema_of(const ValueRule& rule) {
  switch (rule.arity) {
    case Arity::one: return schema_one(rule);
    case Arity::list: return {{"type", "array"}, {"items", schema_one(rule)}};
    case Arity::map:
      return {{"type", "object"},
              {"propertyNames", {{"pattern", "^[A-Za-z0-9_-]+$"}}},
              {"additionalProperties", schema_one(rule)}};
  }
  return Json::object();
}

}  // namespace sluice

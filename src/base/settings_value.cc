#include "base/settings_value.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/nearest.h"
#include "base/utf8.h"

namespace sluice {

namespace {

constexpr std::size_t kMaxKeyBytes = 256;              // of a map's key
constexpr std::size_t kMaxMistakeBytes = 60;           // that a known word is looked for near
constexpr double kExactIntegers = 9007199254740992.0;  // 2^53

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string_view wanted(ValueKind kind) {
  switch (kind) {
    case ValueKind::boolean: return "true or false";
    case ValueKind::integer: return "an integer";
    case ValueKind::number: return "a number";
    case ValueKind::text:
    case ValueKind::secret: return "text";
    case ValueKind::duration: return "a duration such as \"30s\", \"5m\" or \"1h30m\"";
    case ValueKind::ident: return "an integer or text";
  }
  return "a value";
}

// Describes the given value for a message; names only its kind when the value is hidden.
std::string given(const ValueRule& rule, const Node& value) {
  if (rule.hidden) return std::string(kind_name(value.kind));
  switch (value.kind) {
    case Node::Kind::boolean: return value.boolean ? "true" : "false";
    case Node::Kind::integer: return std::to_string(value.integer);
    case Node::Kind::number: return fmt::format("{}", value.number);
    case Node::Kind::text: return "text " + in_quotes(value.text);
    default: return std::string(kind_name(value.kind));
  }
}

std::string mismatch(const ValueRule& rule, const Node& value) {
  return fmt::format("must be {}, not {}", wanted(rule.kind), given(rule, value));
}

std::string range_cause(const ValueRule& rule, double value, const std::string& text) {
  if (!std::isfinite(value)) return text + " is not a finite number";
  if (!rule.ranged() || (value >= rule.low && value <= rule.high)) return {};
  return fmt::format("{} is {}; allowed is {}", text, value < rule.low ? "too small" : "too large",
                     range_text(rule));
}

template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Node accept_integer(const ValueRule& rule, const Node& value, std::string& cause) {
  Node out = Node::of(value.integer);
  if (value.kind == Node::Kind::number && std::trunc(value.number) == value.number &&
      std::abs(value.number) <= kExactIntegers)
    out.integer = static_cast<std::int64_t>(value.number);
  else if (value.kind == Node::Kind::text && !parse_number<std::int64_t>(value.text) &&
           parse_number<double>(value.text))
    cause = fmt::format("must be an integer in plain digits, not {}", given(rule, value));
  else if (value.kind != Node::Kind::integer)
    cause = mismatch(rule, value);
  if (cause.empty())
    cause = range_cause(rule, static_cast<double>(out.integer), std::to_string(out.integer));
  return out;
}

Node accept_number(const ValueRule& rule, const Node& value, std::string& cause) {
  Node out = Node::of(value.number);
  if (value.kind == Node::Kind::integer)
    out.number = static_cast<double>(value.integer);
  else if (value.kind != Node::Kind::number)
    cause = mismatch(rule, value);
  if (cause.empty()) cause = range_cause(rule, out.number, fmt::format("{}", out.number));
  return out;
}

Node accept_duration(const ValueRule& rule, const Node& value, std::string& cause) {
  if (value.kind != Node::Kind::text) return accept_number(rule, value, cause);
  const auto parsed = parse_duration(value.text);
  if (!parsed) {
    cause = mismatch(rule, value);
    return {};
  }
  cause = range_cause(rule, parsed->seconds, in_quotes(value.text));
  return Node::of(parsed->seconds);
}

std::string choice_cause(const ValueRule& rule, const std::string& text) {
  if (rule.choices.empty()) return {};
  const auto words = split(rule.choices, '|');
  if (std::ranges::find(words, text) != words.end()) return {};
  return fmt::format("{} is not one of {}{}", in_quotes(text), range_text(rule),
                     text.size() <= kMaxMistakeBytes ? did_you_mean(lower(text), words) : "");
}

Node accept_text_kind(const ValueRule& rule, const Node& value, std::string& cause) {
  Node out = Node::of(value.text);
  if (rule.kind == ValueKind::ident && value.kind == Node::Kind::integer)
    out.text = std::to_string(value.integer);
  else if (value.kind != Node::Kind::text)
    cause = mismatch(rule, value);
  if (cause.empty() && rule.kind == ValueKind::secret && value.text == Secret("x").masked())
    cause = "is the mask that stands for a secret, not a secret";
  if (cause.empty()) cause = choice_cause(rule, out.text);
  if (cause.empty() && rule.check != nullptr) cause = rule.check(out.text);
  return out;
}

Node accept_one(const ValueRule& rule, const Node& value, std::string& cause) {
  switch (rule.kind) {
    case ValueKind::boolean:
      if (value.kind != Node::Kind::boolean) cause = mismatch(rule, value);
      return Node::of(value.boolean);
    case ValueKind::integer: return accept_integer(rule, value, cause);
    case ValueKind::number: return accept_number(rule, value, cause);
    case ValueKind::duration: return accept_duration(rule, value, cause);
    case ValueKind::text:
    case ValueKind::secret:
    case ValueKind::ident: return accept_text_kind(rule, value, cause);
  }
  return {};
}

Node accept_list(const ValueRule& rule, const Node& value, std::string& cause) {
  Node out = Node::array();
  if (value.kind != Node::Kind::array)
    cause = fmt::format("must be a list, not {}", given(rule, value));
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    std::string why;
    out.items.push_back(accept_one(rule, value.items[i], why));
    if (!why.empty())
      cause += fmt::format("{}element {}: {}", cause.empty() ? "" : "; ", i + 1, why);
  }
  return out;
}

Node accept_map(const ValueRule& rule, const Node& value, std::string& cause) {
  Node out = Node::table();
  if (value.kind != Node::Kind::table)
    cause = fmt::format("must be a table of names and values, not {}", given(rule, value));
  for (const auto& member : value.members) {
    if (cause.empty()) cause = name_cause(member.key);
    if (!cause.empty()) break;
    out.members.push_back({member.key, member.line, accept_one(rule, member.value, cause)});
    if (!cause.empty()) cause = fmt::format("{}: {}", member.key, cause);
  }
  return out;
}

std::optional<bool> parse_bool(std::string_view text) {
  const auto word = lower(text);
  for (const auto* yes : {"true", "1", "yes", "on"})
    if (word == yes) return true;
  for (const auto* no : {"false", "0", "no", "off"})
    if (word == no) return false;
  return std::nullopt;
}

// The text as the node a file would have given; stays text when it is nothing better.
Node literal(ValueKind kind, std::string_view text) {
  const auto word = trimmed(text);
  switch (kind) {
    case ValueKind::boolean:
      if (const auto v = parse_bool(word)) return Node::of(*v);
      break;
    case ValueKind::integer:
      if (const auto v = parse_number<std::int64_t>(word)) return Node::of(*v);
      break;
    case ValueKind::number:
    case ValueKind::duration:
      if (const auto v = parse_number<double>(word)) return Node::of(*v);
      break;
    case ValueKind::text:
    case ValueKind::secret: return Node::of(std::string(text));
    case ValueKind::ident: break;
  }
  return Node::of(std::string(word));
}

Node map_literal(const ValueRule& rule, std::string_view text, std::string& cause) {
  Node table = Node::table();
  for (const auto part : split(text, ',')) {
    const auto equals = part.find('=');
    if (equals == part.npos) {
      cause = rule.hidden ? "must be written as name=value,name=value"
                          : in_quotes(part) + " is not name=value";
      return table;
    }
    const std::string key(trimmed(part.substr(0, equals)));
    if (find(table, key) != nullptr) cause = in_quotes(key) + " is given twice";
    table.members.push_back({key, 0, literal(rule.kind, part.substr(equals + 1))});
  }
  return table;
}

}  // namespace

std::string name_cause(std::string_view key) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  if (key.empty()) return "a name is missing";
  if (key.size() > kMaxKeyBytes || !std::ranges::all_of(key, allowed))
    return in_quotes(key) + " is not a name: letters, digits, '_' and '-' only";
  return {};
}

Node accept(const ValueRule& rule, const Node& value, std::string& cause) {
  switch (rule.arity) {
    case Arity::one: return accept_one(rule, value, cause);
    case Arity::list: return accept_list(rule, value, cause);
    case Arity::map: return accept_map(rule, value, cause);
  }
  return {};
}

Node accept_text(const ValueRule& rule, std::string_view text, std::string& cause) {
  if (first_invalid_utf8(text)) {
    cause = "is not valid UTF-8";
    return {};
  }
  // An empty text is one; an empty secret is a variable that was meant to hold something.
  const bool wants_text = rule.kind == ValueKind::text;
  if (rule.arity == Arity::one && !wants_text && trimmed(text).empty()) {
    cause = fmt::format("is empty; unset it or give {}", wanted(rule.kind));
    return {};
  }
  Node node = Node::array();
  if (rule.arity == Arity::one) {
    node = literal(rule.kind, text);
  } else if (rule.arity == Arity::map) {
    node = trimmed(text).empty() ? Node::table() : map_literal(rule, text, cause);
  } else if (!trimmed(text).empty()) {
    for (const auto part : split(text, ','))
      node.items.push_back(literal(rule.kind, trimmed(part)));
  }
  return cause.empty() ? accept(rule, node, cause) : node;
}

ValueRule element_of(const ValueRule& rule) {
  auto element = rule;
  element.arity = Arity::one;
  return element;
}

}  // namespace sluice

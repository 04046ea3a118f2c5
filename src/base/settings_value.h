// The type of a setting: the rule that validates a value, and the variable that
// receives it. Values travel as Nodes, so the code that checks and shows them is
// written once and not per type.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "base/document.h"
#include "base/duration.h"
#include "base/printable.h"
#include "base/secret.h"

namespace sluice {

enum class ValueKind { boolean, integer, number, text, secret, duration, ident };
enum class Arity { one, list, map };

struct ValueRule {
  ValueKind kind = ValueKind::text;
  Arity arity = Arity::one;
  double low = 0, high = 0;       // low == high: none; of a list or map: of each element
  std::string_view choices = {};  // "a|b"
  TextCheck check = nullptr;
  bool hidden = false;  // never shown

  bool ranged() const noexcept { return low < high; }
};

// The value as the variable stores it (durations in seconds, idents as text), with
// `cause` empty; otherwise why not. A hidden value is never quoted in a cause. What
// was accepted is accepted again, unchanged.
Node accept(const ValueRule& rule, const Node& value, std::string& cause);

// The same for text from the environment or a flag: lists as "a,b", maps as "a=1,b=2".
Node accept_text(const ValueRule& rule, std::string_view text, std::string& cause);

// One element of a list or map.
ValueRule element_of(const ValueRule& rule);

// Returns why a map key is invalid; "" when it is valid.
std::string name_cause(std::string_view name);

// Returns the text for people: 5m, [0, 1], ***.
std::string shown(const ValueRule& rule, const Node& value);
// Returns the JSON for programs; a hidden value that is set is "***".
Json shown_json(const ValueRule& rule, const Node& value);

std::string type_name(const ValueRule& rule);   // "integer", "list of text"
std::string range_text(const ValueRule& rule);  // "1..65535", "fp16|fp32", or ""
Json schema_of(const ValueRule& rule);          // JSON Schema, without default and description

// The variable behind a setting.
class Variable {
 public:
  virtual ~Variable() = default;
  virtual Node read() const = 0;
  virtual void write(const Node& accepted) = 0;  // what accept() returned
};

inline Node to_node(bool v) { return Node::of(v); }
inline Node to_node(std::int64_t v) { return Node::of(v); }
inline Node to_node(double v) { return Node::of(v); }
inline Node to_node(const std::string& v) { return Node::of(v); }
inline Node to_node(const Secret& v) { return Node::of(v.reveal()); }
inline Node to_node(const Duration& v) { return Node::of(v.seconds); }
inline Node to_node(const Ident& v) { return Node::of(v.text); }

inline void from_node(const Node& n, bool& v) { v = n.boolean; }
inline void from_node(const Node& n, std::int64_t& v) { v = n.integer; }
inline void from_node(const Node& n, double& v) { v = n.number; }
inline void from_node(const Node& n, std::string& v) { v = n.text; }
inline void from_node(const Node& n, Secret& v) { v = Secret(n.text); }
inline void from_node(const Node& n, Duration& v) { v.seconds = n.number; }
inline void from_node(const Node& n, Ident& v) { v.text = n.text; }

template <class T>
Node to_node(const std::vector<T>& v) {
  Node list = Node::array();
  for (const T& item : v) list.items.push_back(to_node(item));
  return list;
}
template <class T>
Node to_node(const std::map<std::string, T>& v) {
  Node table = Node::table();
  for (const auto& [key, item] : v) table.members.push_back({key, 0, to_node(item)});
  return table;
}
template <class T>
void from_node(const Node& n, std::vector<T>& v) {
  v.assign(n.items.size(), T{});
  for (std::size_t i = 0; i < v.size(); ++i) from_node(n.items[i], v[i]);
}
template <class T>
void from_node(const Node& n, std::map<std::string, T>& v) {
  v.clear();
  for (const auto& member : n.members) from_node(member.value, v[member.key]);
}

inline ValueRule rule_for(bool) { return {ValueKind::boolean}; }
inline ValueRule rule_for(std::int64_t) { return {ValueKind::integer}; }
inline ValueRule rule_for(double) { return {ValueKind::number}; }
inline ValueRule rule_for(const std::string&) { return {ValueKind::text}; }
inline ValueRule rule_for(const Duration&) { return {ValueKind::duration}; }
inline ValueRule rule_for(const Ident&) { return {ValueKind::ident}; }
inline ValueRule rule_for(const Secret&) {
  ValueRule rule{ValueKind::secret};
  rule.hidden = true;
  return rule;
}
template <class T>
ValueRule rule_for(const std::vector<T>&) {
  auto rule = rule_for(T{});
  rule.arity = Arity::list;
  return rule;
}
template <class T>
ValueRule rule_for(const std::map<std::string, T>&) {
  auto rule = rule_for(T{});
  rule.arity = Arity::map;
  return rule;
}

template <class T>
class VariableOf final : public Variable {
 public:
  explicit VariableOf(T& target) : target_(&target) {}
  Node read() const override { return to_node(*target_); }
  void write(const Node& accepted) override { from_node(accepted, *target_); }

 private:
  T* target_;
};

}  // namespace sluice

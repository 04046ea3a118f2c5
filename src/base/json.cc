#include "base/json.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/cancellation.h"
#include "base/error.h"
#include "base/json_numbers.h"
#include "base/settings_value.h"

namespace sluice {

namespace {

constexpr std::size_t kMaxCauseBytes = 160;  // bytes: the parser repeats what it has read
// Each bracket of a body takes seventy times its size in memory.
constexpr std::size_t kMaxNesting = 64;

std::string kind_of(const Json& json) {
  if (json.is_string()) return "the text " + in_quotes(json.get_ref<const std::string&>());
  if (json.is_number()) return "the number " + json.dump();
  if (json.is_array() || is_packed(json)) return "a list";
  return json.dump();  // null, true, false
}

// Without the parser's own name for it.
std::string cause_of(const Json::exception& e) {
  const std::string_view all = e.what();
  const auto end = all.find("] ");
  return printable(all.substr(end == all.npos ? 0 : end + 2).substr(0, kMaxCauseBytes));
}

// Builds the document from what the parser reports. nlohmann's own builder looks for each
// name among all before it, and keeps each number of a list as a value of its own.
class Builder {
 public:
  Builder(NumberLists lists, std::function<void(const std::string&)> refuse)
      : lists_(lists), refuse_(std::move(refuse)) {}

  bool null() { return number(NAN, nullptr); }
  bool boolean(bool value) { return add(value) != nullptr; }
  bool number_integer(std::int64_t value) { return number(static_cast<double>(value), value); }
  bool number_unsigned(std::uint64_t value) { return number(static_cast<double>(value), value); }
  bool number_float(double value, const std::string&) { return number(value, value); }
  bool string(std::string& value) { return add(std::move(value)) != nullptr; }
  bool binary(Json::binary_t&) { return false; }
  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool key(std::string& name) {
    name_ = std::move(name);
    return true;
  }
  bool end_object() {
    find_repeat(open_.back()->get_ref<const Json::object_t&>());
    return end_array();
  }
  bool end_array() {
    open_.pop_back();
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const Json::exception& e) {
    refuse_("; it is not JSON: " + cause_of(e));
    return false;
  }

  Json take() { return std::move(root_); }
  const std::optional<std::string>& repeated() const { return repeated_; }

 private:
  template <class Value>
  bool number(double value, Value plain) {
    look();
    const bool packs =
        lists_ == NumberLists::packed && !open_.empty() &&
        (is_packed(*open_.back()) || (open_.back()->is_array() && open_.back()->empty()));
    if (!packs) return add(plain) != nullptr;
    append_packed(*open_.back(), value);
    return true;
  }

  void look() {
    if (++values_ % kLook == 0) throw_if_cancelled();
  }

  Json* add(Json value) {
    look();
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& top = *open_.back();
    if (is_packed(top)) top = unpacked(std::move(top));  // it was no list of numbers after all
    if (top.is_array()) {
      top.push_back(std::move(value));
      return &top.back();
    }
    append_member(top, std::move(name_), std::move(value));
    return &top.get_ref<Json::object_t&>().back().second;
  }

  bool open(Json empty) {
    if (open_.size() >= kMaxNesting) refuse_(fmt::format(", nested at most {} deep", kMaxNesting));
    open_.push_back(add(std::move(empty)));
    return true;
  }

  void find_repeat(const Json::object_t& members) {
    std::vector<std::string_view> names;
    names.reserve(members.size());
    for (const auto& member : members) names.push_back(member.first);
    std::ranges::sort(names);
    const auto twice = std::ranges::adjacent_find(names);
    if (twice != names.end() && !repeated_) repeated_ = std::string(*twice);
  }

  static constexpr std::size_t kLook = 1 << 14;  // values between two looks who still waits

  NumberLists lists_;
  std::size_t values_ = 0;
  std::function<void(const std::string&)> refuse_;
  Json root_;
  std::vector<Json*> open_;              // lists and objects around the reader
  std::string name_;                     // of the next value
  std::optional<std::string> repeated_;  // a name that an object has twice
};

}  // namespace

Json parse_json_object(std::string_view text, std::string_view what, std::string_view example,
                       NumberLists lists) {
  const auto refuse = [&](const std::string& why) {
    throw Error(Code::invalid_argument,
                fmt::format("{} must be a JSON object{}{}{}", what,
                            example.empty() ? "" : " such as ", example, why));
  };
  Builder builder(lists, refuse);
  Json::sax_parse(text, &builder);
  Json json = builder.take();
  if (!json.is_object()) refuse(", not " + kind_of(json));
  if (builder.repeated())
    throw Error(Code::invalid_argument,
                fmt::format("{} is given twice in {}", in_quotes(*builder.repeated()), what));
  return json;
}

std::size_t parsed_size(std::string_view text) noexcept {
  constexpr std::size_t kElement = 2 * sizeof(Json), kMember = 128, kList = 64;
  constexpr std::size_t kString = 64;  // allocated, and so is each text that is no name
  const auto signs = [&](char sign) {
    return static_cast<std::size_t>(std::ranges::count(text, sign));
  };
  const std::size_t strings = signs('"') / 2, members = signs(':');
  return text.size() + signs(',') * kElement + members * kMember +
         (strings - std::min(strings, members)) * kString + (signs('[') + signs('{')) * kList;
}

}  // namespace sluice

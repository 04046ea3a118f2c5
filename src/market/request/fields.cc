#include "market/request/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/cancellation.h"
#include "base/error.h"
#include "base/json_numbers.h"
#include "base/nearest.h"
#include "base/settings_value.h"
#include "market/input/require.h"
#include "market/request/dimension.h"

namespace sluice::market {

namespace {

constexpr std::size_t kShown = 64;  // of a name from outside, in bytes

std::string kind_of(const Json& json) {
  if (json.is_string()) return "the text " + in_quotes(json.get_ref<const std::string&>());
  if (json.is_number()) return "the number " + json.dump();
  if (is_list(json)) return "a list";
  if (json.is_object()) return "an object";
  return json.dump();  // null, true, false
}

void append(Panel& panel, Dimension& bars, std::string name, const Json& list,
            const std::string& path) {
  throw_if_cancelled();
  const auto values = numbers_of(list, path);
  bars.agree(path, values.size());
  if (values.empty()) throw Error(Code::invalid_argument, fmt::format("'{}' is empty", path));
  panel.bars = bars.size();
  panel.values.insert(panel.values.end(), values.begin(), values.end());
  panel.names.push_back(std::move(name));
}

}  // namespace

void refuse_field(std::string_view path, std::string_view expected, const Json& found) {
  throw Error(Code::invalid_argument,
              fmt::format("'{}' must be {}, not {}", path, expected, kind_of(found)));
}

Fields::Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
  if (!object.is_object()) refuse_field(path_.empty() ? "the request" : path_, "an object", object);
}

bool Fields::has(std::string_view name) const {
  const auto found = object_.find(name);
  return found != object_.end() && !found->is_null();
}

const Json* Fields::find(std::string_view name) {
  requested_.emplace(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const Json& Fields::need(std::string_view name, std::string_view what) {
  const Json* found = find(name);
  require(found != nullptr, fmt::format("'{}' is missing: {}", path(name), what));
  return *found;
}

std::string Fields::path(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

double Fields::number(std::string_view name, double default_value, double min, double max) {
  const Json* found = find(name);
  if (found == nullptr) return default_value;
  const bool good =
      found->is_number() && found->get<double>() >= min && found->get<double>() <= max;
  if (good) return found->get<double>();
  const bool bounded = std::isfinite(min) || std::isfinite(max);
  refuse_field(path(name),
               bounded ? fmt::format("a number from {:g} to {:g}", min, max) : "a number", *found);
}

std::int64_t Fields::integer(std::string_view name, std::int64_t default_value, std::int64_t min,
                             std::int64_t max) {
  const Json* found = find(name);
  if (found == nullptr) return default_value;
  const double value = found->is_number() ? found->get<double>() : NAN;
  if (value >= static_cast<double>(min) && value <= static_cast<double>(max) &&
      value == std::floor(value))
    return static_cast<std::int64_t>(value);
  refuse_field(path(name), fmt::format("an integer from {} to {}", min, max), *found);
}

bool Fields::flag(std::string_view name, bool default_value) {
  const Json* found = find(name);
  if (found == nullptr) return default_value;
  if (!found->is_boolean()) refuse_field(path(name), "true or false", *found);
  return found->get<bool>();
}

std::string Fields::text(std::string_view name, std::string_view default_value) {
  const Json* found = find(name);
  if (found == nullptr) return std::string(default_value);
  if (!found->is_string()) refuse_field(path(name), "a text", *found);
  return found->get<std::string>();
}

std::size_t Fields::one_of(std::string_view name, std::span<const std::string_view> words,
                           std::size_t default_value) {
  const Json* found = find(name);
  if (found == nullptr) return default_value;
  const std::string_view text =
      found->is_string() ? std::string_view(found->get_ref<const std::string&>()) : "";
  const auto at = std::ranges::find(words, text);
  if (at != words.end()) return static_cast<std::size_t>(at - words.begin());
  throw Error(Code::invalid_argument,
              fmt::format("'{}' must be one of {}, not {}{}", path(name), fmt::join(words, ", "),
                          kind_of(*found), did_you_mean(text.substr(0, kShown), words)));
}

std::vector<double> Fields::numbers(std::string_view name) {
  const Json* found = find(name);
  return found == nullptr ? std::vector<double>() : numbers_of(*found, path(name));
}

void Fields::finish() const {
  const std::vector<std::string_view> known(requested_.begin(), requested_.end());
  for (const auto& item : object_.items()) {
    if (requested_.contains(item.key())) continue;
    throw Error(Code::invalid_argument,
                fmt::format("no field is named {}{}; there are {}",
                            in_quotes(path(item.key().substr(0, kShown))),
                            did_you_mean(std::string_view(item.key()).substr(0, kShown), known),
                            fmt::join(known, ", ")));
  }
}

bool is_list(const Json& json) noexcept { return json.is_array() || is_packed(json); }

bool is_list_of_lists(const Json& json) noexcept {
  return json.is_array() && !json.empty() && is_list(json[0]);
}

std::vector<double> numbers_of(const Json& list, std::string_view path) {
  if (is_packed(list)) return numbers_in(list);
  if (!list.is_array()) refuse_field(path, "a list of numbers", list);
  std::vector<double> values;
  values.reserve(list.size());
  for (const Json& value : list) {
    if (!value.is_number() && !value.is_null())
      refuse_field(fmt::format("{}[{}]", path, values.size()), "a number or null", value);
    values.push_back(value.is_null() ? double{NAN} : value.get<double>());
  }
  return values;
}

Panel panel_of(const Json& json, const std::string& path) {
  Panel panel;
  Dimension bars("values");
  if (json.is_object()) {
    panel.shape = Panel::Shape::named;
    for (const auto& item : json.items())
      append(panel, bars, item.key(), item.value(), path + "." + short_name(item.key()));
  } else if (is_list_of_lists(json)) {
    panel.shape = Panel::Shape::list;
    for (const Json& each : json) {
      auto name = std::to_string(panel.names.size());
      append(panel, bars, name, each, path + "[" + name + "]");
    }
  } else {
    append(panel, bars, "0", json, path);
  }
  require(!panel.names.empty(), fmt::format("'{}' is empty", path));
  return panel;
}

}  // namespace sluice::market

#include "reader.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/nearest.h"

namespace sluice::fake {

void complain(const std::string& where, const std::string& what) {
  throw Error(Code::invalid_argument, where + ": " + what);
}

Object::Object(const Json& json, std::string where) : json_(&json), where_(std::move(where)) {
  if (!json.is_object()) complain(where_, "must be an object");
}

bool Object::has(const char* key) const {
  asked_.push_back(key);
  return json_->contains(key);
}

const Json* Object::find(const char* key) { return has(key) ? &json_->at(key) : nullptr; }

const Json& Object::need(const char* key) {
  if (const Json* found = find(key)) return *found;
  complain(where_, std::string("'") + key + "' is missing");
}

std::optional<double> Object::number(const char* key, double low, double high) {
  const Json* found = find(key);
  if (found == nullptr) return std::nullopt;
  if (!found->is_number()) complain(where(key), "must be a number");
  const auto value = found->get<double>();
  if (!(value >= low && value <= high))
    complain(where(key), "must be between " + Json(low).dump() + " and " + Json(high).dump());
  return value;
}

double Object::number(const char* key, double fallback, double low, double high) {
  return number(key, low, high).value_or(fallback);
}

std::int64_t Object::integer(const char* key, std::int64_t fallback, std::int64_t low,
                             std::int64_t high) {
  const auto value = number(key, static_cast<double>(low), static_cast<double>(high));
  if (!value) return fallback;
  if (*value != std::floor(*value)) complain(where(key), "must be an integer");
  return static_cast<std::int64_t>(*value);
}

bool Object::boolean(const char* key, bool fallback) {
  const Json* found = find(key);
  if (found == nullptr) return fallback;
  if (!found->is_boolean()) complain(where(key), "must be true or false");
  return found->get<bool>();
}

std::string Object::text(const char* key, const std::string& fallback) {
  const Json* found = find(key);
  if (found == nullptr) return fallback;
  if (!found->is_string()) complain(where(key), "must be a string");
  return found->get<std::string>();
}

std::vector<std::string> Object::texts(const char* key) {
  std::vector<std::string> all;
  const Json* found = find(key);
  if (found == nullptr) return all;
  if (!found->is_array()) complain(where(key), "must be a list of strings");
  for (const Json& item : *found) {
    if (!item.is_string()) complain(where(key), "must be a list of strings");
    all.push_back(item.get<std::string>());
  }
  return all;
}

std::vector<Object> Object::objects(const char* key) {
  std::vector<Object> all;
  const Json* found = find(key);
  if (found == nullptr) return all;
  if (!found->is_array()) complain(where(key), "must be a list");
  for (std::size_t i = 0; i < found->size(); ++i)
    all.emplace_back(found->at(i), where(key) + "[" + std::to_string(i) + "]");
  return all;
}

void Object::finish() const {
  for (const auto& item : json_->items())
    if (std::find(asked_.begin(), asked_.end(), item.key()) == asked_.end())
      complain(where_, "'" + item.key() + "' is not known" + did_you_mean(item.key(), asked_));
}

}  // namespace sluice::fake

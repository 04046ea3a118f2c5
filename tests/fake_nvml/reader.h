// Reads JSON objects and complains precisely: every problem names where it is, and
// an unused key is one.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::fake {

using Json = nlohmann::ordered_json;

// Throws sluice::Error, invalid_argument: "gpus[2].load: 'utilisation' is not known".
[[noreturn]] void complain(const std::string& where, const std::string& what);

class Object {
 public:
  // `json` must outlive the object.
  Object(const Json& json, std::string where);

  bool has(const char* key) const;
  // Null when absent.
  const Json* find(const char* key);
  const Json& need(const char* key);

  double number(const char* key, double fallback, double low, double high);
  std::optional<double> number(const char* key, double low, double high);
  std::int64_t integer(const char* key, std::int64_t fallback, std::int64_t low, std::int64_t high);
  bool boolean(const char* key, bool fallback);
  std::string text(const char* key, const std::string& fallback);
  std::vector<std::string> texts(const char* key);
  // The elements of a list of objects; none when absent.
  std::vector<Object> objects(const char* key);

  std::string where(const char* key) const { return where_ + "." + key; }
  const std::string& where() const { return where_; }

  // Call last: reports keys that were never read.
  void finish() const;

 private:
  const Json* json_;
  std::string where_;
  mutable std::vector<std::string_view> asked_;
};

}  // namespace sluice::fake

// Reads untrusted JSON field by field. Every error names the field, the expected and the actual
// value, and is short whatever was sent.
#pragma once

#include <limits>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace sluice::market {

// Throws invalid_argument: "'trading.fee' must be a number, not the text 'x'".
[[noreturn]] void refuse_field(std::string_view path, std::string_view expected, const Json& found);

inline constexpr double kAnyNumber = std::numeric_limits<double>::infinity();

class Fields {
 public:
  // `path` is the object's own, for messages; empty at the top. Both must outlive it.
  // Throws invalid_argument when `object` is none.
  explicit Fields(const Json& object, std::string path = {});

  bool has(std::string_view name) const;
  // Returns null when the field is missing or null, and marks it as known.
  const Json* find(std::string_view name);
  const Json& need(std::string_view name, std::string_view what);  // throws when it is not there
  std::string path(std::string_view name) const;

  double number(std::string_view name, double default_value, double min = -kAnyNumber,
                double max = kAnyNumber);
  std::int64_t integer(std::string_view name, std::int64_t default_value, std::int64_t min,
                       std::int64_t max);
  bool flag(std::string_view name, bool default_value);
  std::string text(std::string_view name, std::string_view default_value);
  // Returns the index of the value in `words`, `default_value` when the field is missing.
  std::size_t one_of(std::string_view name, std::span<const std::string_view> words,
                     std::size_t default_value);
  std::vector<double> numbers(std::string_view name);  // empty when the field is missing

  // Throws for a field that was never requested, naming the nearest known one.
  void finish() const;

 private:
  const Json& object_;
  std::string path_;
  std::set<std::string, std::less<>> requested_;
};

// Reads a list of numbers, plain or packed; null is a NaN.
std::vector<double> numbers_of(const Json& list, std::string_view path);
bool is_list(const Json& json) noexcept;           // plain or packed
bool is_list_of_lists(const Json& json) noexcept;  // by its first element

// Series of one length, stored one after another.
struct Panel {
  enum class Shape { one, list, named } shape = Shape::one;
  std::vector<std::string> names;  // "0", "1" ... of a list
  std::size_t bars = 0;
  std::vector<double> values;

  std::size_t series() const { return names.size(); }
  std::span<const double> at(std::size_t i) const {
    return std::span(values).subspan(i * bars, bars);
  }
};

// Reads [1, 2], [[1, 2], [3, 4]] or {"A": [1, 2], "B": [3, 4]}. Throws when lengths differ or there
// is nothing in it.
Panel panel_of(const Json& json, const std::string& path);

}  // namespace sluice::market

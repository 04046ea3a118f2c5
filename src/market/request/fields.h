// Reading JSON that came from outside, field by field: every error names the field, what
// was wanted and what was found, and is short whatever was sent.
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
[[noreturn]] void refuse_field(std::string_view path, std::string_view wanted, const Json& found);

inline constexpr double kAnyNumber = std::numeric_limits<double>::infinity();

class Fields {
 public:
  // `path` is the object's own, for messages; empty at the top. Both must outlive it.
  // Throws invalid_argument when `object` is none.
  explicit Fields(const Json& object, std::string path = {});

  bool has(std::string_view name) const;
  // Null when it is not there. Counts as asked for; a null counts as not there.
  const Json* find(std::string_view name);
  const Json& need(std::string_view name, std::string_view what);  // throws when it is not there
  std::string path(std::string_view name) const;

  double number(std::string_view name, double otherwise, double least = -kAnyNumber,
                double most = kAnyNumber);
  std::int64_t whole(std::string_view name, std::int64_t otherwise, std::int64_t least,
                     std::int64_t most);
  bool flag(std::string_view name, bool otherwise);
  std::string text(std::string_view name, std::string_view otherwise);
  // Which of `words`; `otherwise` when it is not there.
  std::size_t one_of(std::string_view name, std::span<const std::string_view> words,
                     std::size_t otherwise);
  std::vector<double> numbers(std::string_view name);  // empty when it is not there

  // Throws for a field that nothing asked for, naming the nearest that something did.
  void finish() const;

 private:
  const Json& object_;
  std::string path_;
  std::set<std::string, std::less<>> asked_;
};

// A list of numbers, plain or packed; null is a NaN.
std::vector<double> numbers_of(const Json& list, std::string_view path);
bool is_list(const Json& json) noexcept;           // plain or packed
bool is_list_of_lists(const Json& json) noexcept;  // by its first element

// Some series of one length, behind each other.
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

// [1, 2], [[1, 2], [3, 4]] or {"A": [1, 2], "B": [3, 4]}. Throws when lengths differ or
// there is nothing in it.
Panel panel_of(const Json& json, const std::string& path);

}  // namespace sluice::market

// Reading the request target: percent-decoding and query parameters. Takes any
// bytes; tests/fuzz feeds it just that.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::serve::http {

// Returns nothing when a '%' is not followed by two hex digits or the result would hold a
// NUL. '+' means a space in a query and itself in a path.
std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space);

// "http://host:80/a?b" taken apart: "host:80" and "/a?b". Nothing when the target has
// another form or no host.
struct AbsoluteForm {
  std::string_view authority;
  std::string path;  // and query
};
std::optional<AbsoluteForm> absolute_form(std::string_view target);

// Returns why a query is too long (over 8 KB, or over 16 parameters); "" when it is not.
std::string query_too_long(std::string_view query);

// The canonical form of a query, equal for all spellings; nothing when the query is invalid.
std::optional<std::string> canonical_query(std::string_view query);

// The parameters behind '?', decoded, in order.
class Query {
 public:
  // Throws invalid_argument, naming the parameter, when it cannot be decoded,
  // when one comes twice, or when there are too many.
  explicit Query(std::string_view text);

  // Throws invalid_argument for a parameter not among `known`, and names those.
  void only(std::span<const std::string_view> known) const;

  const std::string* find(std::string_view name) const;
  std::string text(std::string_view name, std::string_view default_value) const;

  // Throws invalid_argument unless it is a number in [low, high].
  double number(std::string_view name, double default_value, double low, double high) const;
  // The same for integers.
  int integer(std::string_view name, int default_value, int low, int high) const;

  // A time in ms since 1970. Values of zero or less are seconds relative to `now_ms`.
  std::int64_t time_ms(std::string_view name, double default_value, std::int64_t now_ms) const;

  std::string canonical() const;  // of any order and spelling

  bool empty() const noexcept { return parameters_.empty(); }

 private:
  std::vector<std::pair<std::string, std::string>> parameters_;
};

}  // namespace sluice::serve::http

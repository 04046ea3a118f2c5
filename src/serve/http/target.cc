#include "serve/http/target.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/nearest.h"

namespace sluice::serve::http {

namespace {

constexpr std::size_t kMaxQueryBytes = 8 << 10;
constexpr std::ptrdiff_t kMaxParameters = 16;
constexpr double kMaxTime_ms = 1e15;  // the year 33658: anything later is a mistake

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string decoded(std::string_view text) {
  auto made = percent_decode(text, true);
  if (!made)
    throw Error(Code::invalid_argument, "query parameter '" + std::string(text.substr(0, 64)) +
                                            "' is not percent-encoded properly");
  return *std::move(made);
}

std::string short_number(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

std::string list_of(std::span<const std::string_view> names) {
  std::string list;
  for (const auto name : names) list.append(list.empty() ? "" : ", ").append(name);
  return list;
}

// Returns nothing unless all of `text` is a number in [low, high].
template <class T>
std::optional<T> parsed(const std::string& text, T low, T high) {
  T value{};
  const auto* end = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data(), end, value);
  if (failed != std::errc() || stop != end || !(value >= low && value <= high)) return std::nullopt;
  return value;
}

[[noreturn]] void wrong_number(std::string_view name, const std::string& given,
                               std::string_view wanted, double low, double high) {
  throw Error(Code::invalid_argument, "query parameter '" + std::string(name) + "' is '" + given +
                                          "'; it must be " + std::string(wanted) + " from " +
                                          short_number(low) + " to " + short_number(high));
}

bool begins_with(std::string_view text, std::string_view lower_case) {
  return text.size() >= lower_case.size() &&
         std::equal(lower_case.begin(), lower_case.end(), text.begin(), [](char want, char c) {
           return want == (c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
         });
}

}  // namespace

std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size() || hex(text[i + 1]) < 0 || hex(text[i + 2]) < 0) return std::nullopt;
      c = static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2]));
      i += 2;
    } else if (c == '+' && plus_is_space) {
      c = ' ';
    }
    if (c == '\0') return std::nullopt;
    out.push_back(c);
  }
  return out;
}

std::optional<AbsoluteForm> absolute_form(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!begins_with(target, scheme)) continue;
    target.remove_prefix(scheme.size());
    const auto end = std::min(target.find_first_of("/?"), target.size());
    if (end == 0) return std::nullopt;
    const auto rest = target.substr(end);
    return AbsoluteForm{target.substr(0, end),
                        (rest.starts_with('/') ? "" : "/") + std::string(rest)};
  }
  return std::nullopt;
}

std::string query_too_long(std::string_view query) {
  if (query.size() > kMaxQueryBytes)
    return "the query is longer than " + std::to_string(kMaxQueryBytes) + " bytes";
  if (std::ranges::count(query, '&') >= kMaxParameters)
    return "the query has more than " + std::to_string(kMaxParameters) + " parameters";
  return {};
}

std::optional<std::string> canonical_query(std::string_view query) {
  if (query.empty()) return std::string();
  try {
    return Query(query).canonical();
  } catch (const Error&) {
    return std::nullopt;
  }
}

Query::Query(std::string_view text) {
  if (const auto cause = query_too_long(text); !cause.empty())
    throw Error(Code::invalid_argument, cause);
  while (!text.empty()) {
    const auto piece = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), piece.size() + 1));
    if (piece.empty()) continue;
    const auto equals = piece.find('=');
    auto name = decoded(piece.substr(0, equals));
    auto value = equals == std::string_view::npos ? "" : decoded(piece.substr(equals + 1));
    if (find(name) != nullptr)
      throw Error(Code::invalid_argument, "query parameter '" + name + "' is given twice");
    parameters_.emplace_back(std::move(name), std::move(value));
  }
}

void Query::only(std::span<const std::string_view> known) const {
  for (const auto& [name, value] : parameters_)
    if (std::ranges::find(known, name) == known.end())
      throw Error(Code::invalid_argument, "no query parameter is named '" + name + "'" +
                                              (known.empty() ? "; this route takes none"
                                                             : " (known: " + list_of(known) + ")" +
                                                                   did_you_mean(name, known)));
}

std::string Query::canonical() const {
  auto sorted = parameters_;
  std::ranges::sort(sorted);
  std::string text;
  for (const auto& [name, value] : sorted)  // no name or value holds a NUL
    text.append(name).push_back('\0'), text.append(value).push_back('\0');
  return text;
}

const std::string* Query::find(std::string_view name) const {
  const auto found = std::ranges::find(parameters_, name, [](const auto& p) { return p.first; });
  return found == parameters_.end() ? nullptr : &found->second;
}

std::string Query::text(std::string_view name, std::string_view default_value) const {
  const auto* found = find(name);
  return found == nullptr ? std::string(default_value) : *found;
}

double Query::number(std::string_view name, double default_value, double low, double high) const {
  const auto* found = find(name);
  if (found == nullptr) return default_value;
  const auto value = parsed(*found, low, high);
  if (!value) wrong_number(name, *found, "a number", low, high);
  return *value;
}

int Query::integer(std::string_view name, int default_value, int low, int high) const {
  const auto* found = find(name);
  if (found == nullptr) return default_value;
  const auto value = parsed(*found, low, high);
  if (!value) wrong_number(name, *found, "an integer", low, high);
  return *value;
}

std::int64_t Query::time_ms(std::string_view name, double default_value,
                            std::int64_t now_ms) const {
  const double value = number(name, default_value, -kMaxTime_ms, kMaxTime_ms);
  return value <= 0 ? now_ms + std::llround(value * 1000) : std::llround(value);
}

}  // namespace sluice::serve::http

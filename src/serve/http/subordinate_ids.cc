#include "serve/http/subordinate_ids.h"

#include <pwd.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/file_to_read.h"

namespace sluice::serve::http {

namespace {

std::optional<std::int64_t> to_id(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = error == std::errc{} && end == text.data() + text.size();
  return is_whole && value >= 0 ? std::optional(value) : std::nullopt;
}

// The text before the next `separator`, which is taken off `text`.
std::string_view take_field(std::string_view& text, char separator) {
  const auto end = std::min(text.find(separator), text.size());
  const auto field = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return field;
}

std::optional<std::int64_t> uid_of_name(const std::string& name) {
  passwd entry{}, *found = nullptr;
  std::vector<char> buffer(1 << 14);
  if (::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 || !found)
    return std::nullopt;
  return entry.pw_uid;
}

}  // namespace

SubordinateIds::SubordinateIds(std::string_view text, const UidOf& uid_of) {
  while (!text.empty()) {
    auto line = take_field(text, '\n');
    const auto name = take_field(line, ':');
    const auto first = to_id(take_field(line, ':')), count = to_id(line);
    if (name.empty() || !first || !count || *count == 0) continue;
    if (*count > std::numeric_limits<std::int64_t>::max() - *first) continue;
    const auto owner = to_id(name) ? to_id(name) : uid_of(std::string(name));
    if (owner) ranges_.push_back({*first, *first + *count - 1, *owner});
  }
}

const SubordinateIds& SubordinateIds::here() {
  constexpr std::size_t kMaxBytes = 1 << 20;
  static const SubordinateIds ids(read_named_file("/etc/subuid", kMaxBytes).value_or(""),
                                  uid_of_name);
  return ids;
}

std::int64_t SubordinateIds::owner(std::int64_t uid) const noexcept {
  const auto found = std::ranges::find_if(
      ranges_, [&](const Range& range) { return range.first <= uid && uid <= range.last; });
  return found == ranges_.end() ? uid : found->owner;
}

}  // namespace sluice::serve::http

// Subordinate user ids (/etc/subuid): a user of this machine may run processes under tens of
// thousands of further ids, as rootless containers do. For limits all of them are that user.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::serve::http {

class SubordinateIds {
 public:
  using UidOf = std::function<std::optional<std::int64_t>(const std::string& name)>;

  // Lines "OWNER:FIRST:COUNT", the owner by name or number. Skips others. Where ranges overlap,
  // the first one counts.
  SubordinateIds(std::string_view text, const UidOf& uid_of);
  // The ids of this machine, read at the first call.
  static const SubordinateIds& here();

  // The user that `uid` belongs to; `uid` itself when it is no subordinate id.
  std::int64_t owner(std::int64_t uid) const noexcept;

 private:
  struct Range {
    std::int64_t first, last, owner;
  };
  std::vector<Range> ranges_;
};

}  // namespace sluice::serve::http

// Tokens and their ids. Immutable once filled; any number of threads may read it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sluice::text {

inline constexpr std::uint32_t kMaxTokenId =
    (1u << 24) - 1;  // bounds what a file makes us allocate

class Vocabulary {
 public:
  Vocabulary() = default;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  // A later id of the same token replaces the earlier. Throws invalid_argument above kMaxTokenId.
  void add(std::string_view token, std::uint32_t id);

  std::optional<std::uint32_t> find(std::string_view token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<std::string_view> token(std::uint32_t id) const {
    return id < tokens_.size() && tokens_[id] ? std::optional<std::string_view>(*tokens_[id])
                                              : std::nullopt;
  }
  std::size_t size() const noexcept { return ids_.size(); }

  template <class Visit>
  void each(Visit&& visit) const {
    for (const auto& [token, id] : ids_) visit(std::string_view(token), id);
  }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>{}(text);
    }
  };

  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> ids_;
  std::vector<const std::string*> tokens_;  // by id; keys of ids_, whose nodes stay where they are
};

}  // namespace sluice::text

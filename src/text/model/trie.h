// Byte strings with a number each, for prefixes of a text. Filled once, then read by any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/model/flat_map.h"

namespace sluice::text {

class Trie {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  Trie() : values_{kNone} { roots_.fill(0); }

  // A later value of the same key replaces the earlier.
  void insert(std::string_view key, std::uint32_t value) {
    std::uint32_t node = 0;
    for (const char c : key) node = child_or_new(node, static_cast<unsigned char>(c));
    values_[node] = value;
  }

  // Calls visit(end, value) for each key that begins at `at`, the shortest first.
  template <class Visit>
  void each_prefix(std::string_view text, std::size_t at, Visit&& visit) const {
    std::uint32_t node = 0;
    while (at < text.size()) {
      node = child(node, static_cast<unsigned char>(text[at++]));
      if (node == 0) return;
      if (values_[node] != kNone) visit(at, values_[node]);
    }
  }

  struct Found {
    std::size_t end = 0;
    std::uint32_t value = kNone;  // kNone: no key
  };
  // The longest key that begins at `at`.
  Found longest(std::string_view text, std::size_t at) const {
    Found found;
    each_prefix(text, at, [&](std::size_t end, std::uint32_t value) { found = {end, value}; });
    return found;
  }

  bool empty() const noexcept { return values_.size() == 1; }
  // The next place from `at` on with a byte that a key begins with, or the text's size.
  std::size_t next_start(std::string_view text, std::size_t at) const noexcept {
    if (empty()) return text.size();
    if (starts_ == 1) return std::min(text.find(only_start_, at), text.size());
    while (at < text.size() && roots_[static_cast<unsigned char>(text[at])] == 0) ++at;
    return at;
  }

 private:
  static std::uint64_t edge(std::uint32_t node, unsigned char byte) noexcept {
    return std::uint64_t{node} << 8 | byte;
  }

  std::uint32_t child(std::uint32_t node, unsigned char byte) const noexcept {
    if (node == 0) return roots_[byte];
    const auto* found = edges_.find(edge(node, byte));
    return found == nullptr ? 0 : *found;
  }

  std::uint32_t child_or_new(std::uint32_t node, unsigned char byte) {
    if (const auto known = child(node, byte)) return known;
    const auto next = static_cast<std::uint32_t>(values_.size());
    values_.push_back(kNone);
    if (node == 0) {
      roots_[byte] = next;
      only_start_ = static_cast<char>(byte);
      ++starts_;
    } else {
      edges_.insert(edge(node, byte), next);
    }
    return next;
  }

  FlatMap<std::uint32_t> edges_;
  std::array<std::uint32_t, 256> roots_;  // children of the root
  std::vector<std::uint32_t> values_;     // of each node
  std::size_t starts_ = 0;                // bytes that keys begin with
  char only_start_ = 0;
};

}  // namespace sluice::text

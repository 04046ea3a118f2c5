// Caches tensors by key, so that users of the same key share one tensor.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace sluice::engine {

// `Value` holds the tensor in its member `result`. Entries that nobody else holds are evicted in
// LRU order beyond kMaxUnusedBytes, and any entry after kMaxIdleCalls calls without a use.
template <class Key, class Value>
class TensorCache {
 public:
  static constexpr std::size_t kMaxUnusedBytes = std::size_t{8} << 20;
  static constexpr std::uint64_t kMaxIdleCalls = 16384;

  const Value* find(const Key& key) {  // null: not cached
    const auto found = entries_.find(key);
    if (found == entries_.end()) return nullptr;
    found->second.used = ++calls_;
    return &found->second.value;
  }

  // Returns the evicted values.
  std::vector<Value> add(Key key, Value value) {
    fresh_ += value.result.bytes();
    ++fresh_count_;
    entries_.insert_or_assign(std::move(key), Entry{std::move(value), ++calls_});
    if (fresh_ < kMaxUnusedBytes / 4 && fresh_count_ < entries_.size() / 4 + kMinFresh) return {};
    fresh_ = fresh_count_ = 0;
    return drop_unused();
  }

  // Preloads an entry, which stays at least until its first use.
  void preload(Key key, Value value) {
    entries_.insert_or_assign(std::move(key), Entry{std::move(value), 0});
  }

  std::vector<Value> all() const {
    std::vector<Value> all;
    for (const auto& [key, entry] : entries_) all.push_back(entry.value);
    return all;
  }
  std::size_t size() const noexcept { return entries_.size(); }

 private:
  static constexpr std::size_t kMinFresh = 64;

  struct Entry {
    Value value;
    std::uint64_t used;  // call number of the last use; 0: not used yet
  };
  using Position = typename std::map<Key, Entry>::iterator;

  std::vector<Value> drop_unused() {
    std::vector<Position> unused, old;
    std::size_t bytes = 0;
    for (auto at = entries_.begin(); at != entries_.end(); ++at) {
      const Entry& entry = at->second;
      if (entry.used == 0) continue;
      if (entry.used + kMaxIdleCalls < calls_) {
        old.push_back(at);
      } else if (entry.value.result.holders() <= 1) {
        unused.push_back(at);
        bytes += entry.value.result.bytes();
      }
    }
    std::ranges::sort(unused, {}, [](const Position& at) { return at->second.used; });
    for (auto at = unused.begin(); at != unused.end() && bytes > kMaxUnusedBytes; ++at) {
      bytes -= (*at)->second.value.result.bytes();
      old.push_back(*at);
    }
    std::vector<Value> dropped;
    for (const Position& at : old) {
      dropped.push_back(std::move(at->second.value));
      entries_.erase(at);
    }
    return dropped;
  }

  std::map<Key, Entry> entries_;
  std::uint64_t calls_ = 0;
  std::size_t fresh_ = 0, fresh_count_ = 0;  // bytes and entries since the last eviction check
};

}  // namespace sluice::engine

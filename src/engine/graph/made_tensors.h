// Tensors that are made once for each key and shared by all who ask for them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace sluice::engine {

// `Value` has the tensor as its member `result`. Of those that nobody else holds any more,
// kMostUnused bytes are kept, the last used; and of all, those of the last kMostCalls.
template <class Key, class Value>
class MadeTensors {
 public:
  static constexpr std::size_t kMostUnused = std::size_t{8} << 20;
  static constexpr std::uint64_t kMostCalls = 16384;

  const Value* find(const Key& key) {  // null: not made yet
    const auto found = entries_.find(key);
    if (found == entries_.end()) return nullptr;
    found->second.used = ++calls_;
    return &found->second.value;
  }

  // Returns those that had to go for it.
  std::vector<Value> add(Key key, Value value) {
    fresh_ += value.result.bytes();
    ++fresh_count_;
    entries_.insert_or_assign(std::move(key), Entry{std::move(value), ++calls_});
    if (fresh_ < kMostUnused / 4 && fresh_count_ < entries_.size() / 4 + kFewest) return {};
    fresh_ = fresh_count_ = 0;
    return drop_unused();
  }

  // It stays at least until it is asked for.
  void bring(Key key, Value value) {
    entries_.insert_or_assign(std::move(key), Entry{std::move(value), 0});
  }

  std::vector<Value> all() const {
    std::vector<Value> all;
    for (const auto& [key, entry] : entries_) all.push_back(entry.value);
    return all;
  }
  std::size_t size() const noexcept { return entries_.size(); }

 private:
  static constexpr std::size_t kFewest = 64;

  struct Entry {
    Value value;
    std::uint64_t used;  // the last time, counted in calls; 0: not yet
  };
  using Place = typename std::map<Key, Entry>::iterator;

  std::vector<Value> drop_unused() {
    std::vector<Place> unused, old;
    std::size_t bytes = 0;
    for (auto at = entries_.begin(); at != entries_.end(); ++at) {
      const Entry& entry = at->second;
      if (entry.used == 0) continue;
      if (entry.used + kMostCalls < calls_) {
        old.push_back(at);
      } else if (entry.value.result.holders() <= 1) {
        unused.push_back(at);
        bytes += entry.value.result.bytes();
      }
    }
    std::ranges::sort(unused, {}, [](const Place& at) { return at->second.used; });
    for (auto at = unused.begin(); at != unused.end() && bytes > kMostUnused; ++at) {
      bytes -= (*at)->second.value.result.bytes();
      old.push_back(*at);
    }
    std::vector<Value> dropped;
    for (const Place& at : old) {
      dropped.push_back(std::move(at->second.value));
      entries_.erase(at);
    }
    return dropped;
  }

  std::map<Key, Entry> entries_;
  std::uint64_t calls_ = 0;
  std::size_t fresh_ = 0, fresh_count_ = 0;  // bytes and entries since the last look
};

}  // namespace sluice::engine

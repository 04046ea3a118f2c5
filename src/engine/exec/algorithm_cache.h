// Chosen algorithms by problem description, and compiled code by source text; plans store them.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

namespace sluice::engine {

// Null: not known. It remains valid after eviction.
using AlgorithmChoice = std::shared_ptr<const std::string>;

// An LRU cache with a limit in bytes, keys included. An evicted algorithm is measured again when
// it is needed.
class AlgorithmCache {
 public:
  using Choices = std::map<std::string, std::string>;

  static constexpr std::size_t kMaxBytes = std::size_t{24} << 20;
  explicit AlgorithmCache(std::size_t max_bytes = kMaxBytes) : max_bytes_(max_bytes) {}

  AlgorithmChoice find(const std::string& key);  // null: not known
  void set(const std::string& key, std::string value);
  void erase(const std::string& key);
  void merge(Choices choices);  // adds those whose keys are not known yet

  Choices all() const;
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  struct Entry {
    std::string key;
    AlgorithmChoice value;
    std::size_t bytes() const noexcept { return key.size() + value->size(); }
  };
  void evict();

  const std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> index_;
};

}  // namespace sluice::engine

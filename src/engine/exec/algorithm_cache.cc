#include "engine/exec/algorithm_cache.h"

#include <utility>

namespace sluice::engine {

AlgorithmChoice AlgorithmCache::find(const std::string& key) {
  const auto found = index_.find(key);
  if (found == index_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->value;
}

void AlgorithmCache::set(const std::string& key, std::string value) {
  erase(key);
  entries_.push_front({key, std::make_shared<const std::string>(std::move(value))});
  index_.emplace(entries_.front().key, entries_.begin());
  bytes_ += entries_.front().bytes();
  evict();
}

void AlgorithmCache::erase(const std::string& key) {
  const auto found = index_.find(key);
  if (found == index_.end()) return;
  const auto entry = found->second;
  bytes_ -= entry->bytes();
  index_.erase(found);
  entries_.erase(entry);
}

// An entry larger than the limit stays until the next one is added.
void AlgorithmCache::evict() {
  while (bytes_ > max_bytes_ && entries_.size() > 1) {
    bytes_ -= entries_.back().bytes();
    index_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

void AlgorithmCache::merge(Choices choices) {
  for (auto& [key, value] : choices)
    if (!index_.contains(key)) set(key, std::move(value));
}

AlgorithmCache::Choices AlgorithmCache::all() const {
  Choices all;
  for (const Entry& entry : entries_) all.emplace(entry.key, *entry.value);
  return all;
}

}  // namespace sluice::engine

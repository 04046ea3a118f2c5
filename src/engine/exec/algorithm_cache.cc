#include "engine/exec/algorithm_cache.h"

#include <utility>

namespace sluice::engine {

ChoiceTable::Choice ChoiceTable::find(const std::string& of) {
  const auto found = places_.find(of);
  if (found == places_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->what;
}

void ChoiceTable::set(const std::string& of, std::string what) {
  erase(of);
  entries_.push_front({of, std::make_shared<const std::string>(std::move(what))});
  places_.emplace(entries_.front().of, entries_.begin());
  bytes_ += entries_.front().bytes();
  make_room();
}

void ChoiceTable::erase(const std::string& of) {
  const auto found = places_.find(of);
  if (found == places_.end()) return;
  const auto entry = found->second;
  bytes_ -= entry->bytes();
  places_.erase(found);
  entries_.erase(entry);
}

// One that is larger than the table by itself stays until the next comes.
void ChoiceTable::make_room() {
  while (bytes_ > most_ && entries_.size() > 1) {
    bytes_ -= entries_.back().bytes();
    places_.erase(entries_.back().of);
    entries_.pop_back();
  }
}

void ChoiceTable::merge(Choices choices) {
  for (auto& [of, what] : choices)
    if (!places_.contains(of)) set(of, std::move(what));
}

ChoiceTable::Choices ChoiceTable::all() const {
  Choices all;
  for (const Entry& entry : entries_) all.emplace(entry.of, *entry.what);
  return all;
}

}  // namespace sluice::engine

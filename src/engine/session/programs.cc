#include "engine/session/programs.h"

#include <algorithm>

namespace sluice::engine {
namespace {

constexpr double kMinPause_s = 1, kMaxPause_s = 300;

}  // namespace

std::optional<InputTypes> types_of(std::span<const Datum> inputs) {
  InputTypes types;
  for (const Datum& input : inputs) {
    if (input.kind != Datum::Kind::tensor) return std::nullopt;
    types.push_back({input.tensor.dtype(), input.tensor.shape()});
  }
  return types;
}

std::int64_t BatchFit::begin(std::int64_t items, Instant now) const {
  const Lock lock(mutex_);
  return max_items_ && now < retry_at_ ? std::min(*max_items_, items) : items;
}

void BatchFit::limit(std::int64_t max_items, Instant now) {
  const Lock lock(mutex_);
  if (max_items_ == max_items && now < retry_at_) return;  // already known
  max_items_ = max_items;
  pause_s_ = std::clamp(2 * pause_s_, kMinPause_s, kMaxPause_s);
  retry_at_ = now + std::chrono::duration_cast<Steady::duration>(Seconds(pause_s_));
}

void BatchFit::reset() {
  const Lock lock(mutex_);
  max_items_.reset();
  pause_s_ = 0;
}

std::shared_ptr<Programs::Entry> Programs::at(std::span<const TensorType> types) {
  std::list<Kept> evicted;  // destroyed after the lock: that may wait for the device
  const Lock lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Kept& kept) {
    return std::equal(kept.entry->types.begin(), kept.entry->types.end(), types.begin(),
                      types.end());
  });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
  } else {
    entries_.push_front({std::make_shared<Entry>(types)});
    if (entries_.size() > kMaxPrograms) evicted.splice(evicted.begin(), entries_, --entries_.end());
  }
  return entries_.front().entry;
}

void Programs::add(const Entry& entry, const std::shared_ptr<const Program>& program) {
  const Lock lock(mutex_);
  for (Kept& kept : entries_)
    if (kept.entry.get() == &entry) kept.program = program;
  std::erase_if(made_, [](const auto& one) { return one.expired(); });
  made_.push_back(program);
}

std::vector<Graph> Programs::graphs() const {
  std::vector<std::shared_ptr<const Program>> programs;  // one may end here, without the lock
  {
    const Lock lock(mutex_);
    for (const Kept& kept : entries_)
      if (kept.program) programs.push_back(kept.program);
  }
  std::vector<Graph> graphs;
  for (const auto& program : programs) graphs.push_back(program->graph());
  return graphs;
}

std::size_t Programs::trim() const noexcept {
  std::size_t bytes = 0;
  std::vector<std::shared_ptr<const Program>> programs;  // one may end here, without the lock
  {
    const Lock lock(mutex_);
    for (const auto& one : made_)
      if (auto program = one.lock()) programs.push_back(std::move(program));
  }
  for (const auto& program : programs) bytes += program->trim();
  return bytes;
}

}  // namespace sluice::engine

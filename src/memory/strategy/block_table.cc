#include "memory/strategy/block_table.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace sluice::memory {

NodeId OffsetMap::find_spilled(std::uint32_t key) const {
  for (const Entry& entry : spilled_)
    if (entry.key == key) return entry.value;
  return kNone;
}

NodeId OffsetMap::take_spilled(std::uint32_t key) {
  for (Entry& entry : spilled_) {
    if (entry.key != key) continue;
    const NodeId value = entry.value;
    entry = spilled_.back();
    spilled_.pop_back();
    --count_;
    return value;
  }
  return kNone;
}

void OffsetMap::grow() {
  const std::vector<Bucket> old = std::exchange(buckets_, {});
  const std::vector<Entry> spilled = std::exchange(spilled_, {});
  buckets_.resize(old.size() * 2);
  --shift_;
  for (const Bucket& bucket : old)
    for (unsigned i = 0; i < bucket.count; ++i) place(bucket.keys[i / 4][i % 4], bucket.values[i]);
  for (const Entry& entry : spilled) place(entry.key, entry.value);
}

void NumberSet::insert(std::size_t n) {
  for (auto& level : levels_) {
    if (level.size() <= n / 64) level.resize(n / 64 + 1);
    level[n / 64] |= std::uint64_t{1} << n % 64;
    n /= 64;
  }
}

void NumberSet::erase(std::size_t n) {
  for (auto& level : levels_) {
    level[n / 64] &= ~(std::uint64_t{1} << n % 64);
    if (level[n / 64] != 0) return;
    n /= 64;
  }
}

std::size_t NumberSet::below(std::size_t end) const {
  const auto highest = [](std::uint64_t word) {
    return static_cast<std::size_t>(std::bit_width(word)) - 1;
  };
  for (std::size_t level = 0; level < kLevels; ++level, end /= 64) {
    const auto& words = levels_[level];
    const std::size_t at = end / 64;
    if (at >= words.size()) {
      if (words.empty()) return kNever;
      end = words.size() * 64;  // all of the last word, by the level above
      continue;
    }
    const std::uint64_t lower = words[at] & ((std::uint64_t{1} << end % 64) - 1);
    if (lower == 0) continue;
    std::size_t n = at * 64 + highest(lower);
    while (level-- > 0) n = n * 64 + highest(levels_[level][n]);
    return n;
  }
  return kNever;
}

void visit_merged(std::vector<Span> spans, const Strategy::Visit& visit) {
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return a.offset < b.offset; });
  Span open{0, 0};
  for (const Span& span : spans) {
    if (span.offset == open.offset + open.bytes) {
      open.bytes += span.bytes;
      continue;
    }
    if (open.bytes > 0) visit(open.offset, open.bytes);
    open = span;
  }
  if (open.bytes > 0) visit(open.offset, open.bytes);
}

}  // namespace sluice::memory

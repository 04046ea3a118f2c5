#include "memory/strategy/block_table.h"

#include <algorithm>
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

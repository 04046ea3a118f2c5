#include "memory/block_table.h"

#include <algorithm>

namespace sluice::memory {

void OffsetMap::grow() {
  const std::vector<Slot> old = std::move(slots_);
  slots_.assign(old.size() * 2, {});
  --shift_;
  for (const Slot& slot : old)
    if (slot.value != kNone) place(slot);
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

#include "text/id_cache.h"

#include <algorithm>
#include <functional>

namespace sluice::text {

void IdCache::clear() {
  slots_.assign(kFirstSlots, {});
  long_.assign(kFirstSlots / 8, {});
  texts_.clear();
  more_.clear();
  used_ = long_used_ = 0;
}

std::uint32_t IdCache::keep(std::span<const std::uint32_t> ids) {
  const auto at = static_cast<std::uint32_t>(more_.size());
  more_.insert(more_.end(), ids.begin(), ids.end());
  return at;
}

void IdCache::insert(std::string_view text, std::span<const std::uint32_t> ids) {
  if (text.size() > kMostBytes || ids.size() > kMostBytes) return;
  if (more_.size() + ids.size() > kMostMore || texts_.size() + text.size() > kMostLongBytes ||
      2 * used_ >= kMostSlots)
    clear();
  if (text.size() > ShortKey::kMostBytes) return insert_long(text, ids);
  if (2 * (used_ + 1) > slots_.size()) grow_slots();
  const ShortKey key = ShortKey::of(text);
  Slot& slot = slots_[place(key)];
  slot.key = key;
  slot.count = static_cast<std::uint32_t>(ids.size());
  if (ids.size() <= kInline)
    std::ranges::copy(ids, slot.ids);
  else
    slot.ids[0] = keep(ids);
  ++used_;
}

void IdCache::grow_slots() {
  std::vector<Slot> old(2 * slots_.size());
  old.swap(slots_);
  for (const Slot& slot : old)
    if (slot.key.high != 0) slots_[place(slot.key)] = slot;
}

std::size_t IdCache::place(std::string_view text, std::uint64_t hash) const noexcept {
  const std::size_t mask = long_.size() - 1;
  std::size_t at = hash & mask;
  const auto differs = [&](const Long& one) {
    return one.hash != hash || std::string_view(texts_).substr(one.begin, one.length) != text;
  };
  while (long_[at].length != 0 && differs(long_[at])) at = (at + 1) & mask;
  return at;
}

bool IdCache::find_long(std::string_view text, IdBuffer& ids) const {
  if (text.size() > kMostBytes) return false;
  const Long& one = long_[place(text, std::hash<std::string_view>{}(text))];
  if (one.length == 0) return false;
  ids.append(std::span(more_).subspan(one.ids, one.count));
  return true;
}

void IdCache::insert_long(std::string_view text, std::span<const std::uint32_t> ids) {
  if (2 * (long_used_ + 1) > long_.size()) grow_long();
  const std::uint64_t hash = std::hash<std::string_view>{}(text);
  Long& one = long_[place(text, hash)];
  one = {hash, static_cast<std::uint32_t>(texts_.size()), static_cast<std::uint32_t>(text.size()),
         keep(ids), static_cast<std::uint32_t>(ids.size())};
  texts_ += text;
  ++long_used_;
}

void IdCache::grow_long() {
  std::vector<Long> old(2 * long_.size());
  old.swap(long_);
  for (const Long& one : old)
    if (one.length != 0)
      long_[place(std::string_view(texts_).substr(one.begin, one.length), one.hash)] = one;
}

}  // namespace sluice::text

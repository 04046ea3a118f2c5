// Blocks up to 64 KiB share slabs, each cut into equal slots of one of 48 sizes; larger
// ones, and the slabs themselves, are placed by best fit. An empty slab goes back at
// once, so that its place can become anything. Where there is space for a block but not
// for a slab, the block is placed alone: a small request never fails for a large reason.
#include <algorithm>
#include <array>
#include <bit>
#include <cassert>

#include "memory/strategy/holes_by_size.h"
#include "memory/strategy/strategies.h"
#include "memory/strategy/table_strategy.h"

namespace sluice::memory {
namespace {

constexpr std::size_t kSmall = 64 << 10;       // larger blocks have no slab
constexpr std::size_t kSlabBytes = 512 << 10;  // at most
constexpr std::size_t kMaxSlots = 64;          // bits of a mask
constexpr std::size_t kSteps = 8;              // sizes per power of two
constexpr std::size_t kClasses = 48;

// A size is rounded up to a multiple of an eighth of the power of two below it.
constexpr std::size_t slot_bytes(std::size_t bytes) {
  const std::size_t units = (bytes + kAlignment - 1) / kAlignment;
  if (units <= 2 * kSteps) return (units == 0 ? 1 : units) * kAlignment;
  return round_up(units, std::bit_floor(units - 1) / kSteps) * kAlignment;
}
constexpr std::size_t class_of(std::size_t slot) {
  const std::size_t units = slot / kAlignment;
  if (units <= 2 * kSteps) return units - 1;
  const auto top = static_cast<std::size_t>(std::bit_width(units - 1)) - 1;  // units > 2^top
  return (top - 3) * kSteps + (units >> (top - 3)) - 1;
}
static_assert(class_of(kSmall) == kClasses - 1 && class_of(slot_bytes(kSmall - 1)) == kClasses - 1);
static_assert(class_of(slot_bytes(4097)) == class_of(4096) + 1);

struct Slab {
  Offset offset = 0;
  std::size_t slot = 0;      // bytes
  std::uint64_t unused = 0;  // slots
  NodeId previous = kNone, next = kNone;

  std::size_t slots() const { return std::min(kMaxSlots, kSlabBytes / slot); }
  std::uint64_t all() const { return ~std::uint64_t{0} >> (64 - slots()); }
  std::size_t bytes() const { return slots() * slot; }
};

class SlabStrategy final : public Strategy {
 public:
  SlabStrategy() { partial_.fill(kNone); }

  std::optional<Offset> allocate(std::size_t bytes) override {
    if (bytes > kSmall) return counted(large_.allocate(bytes), bytes);
    const std::size_t slot = slot_bytes(bytes);
    NodeId id = partial_[class_of(slot)];
    if (id == kNone) id = new_slab(slot);
    if (id == kNone) return counted(large_.allocate(bytes), bytes);
    Slab& slab = slabs_[id];
    const auto index = static_cast<std::size_t>(std::countr_zero(slab.unused));
    slab.unused &= slab.unused - 1;
    if (slab.unused == 0) unlist(id);
    const Offset offset = slab.offset + index * slot;
    map_.insert(offset, id);
    tally_.take(slot);
    return offset;
  }

  std::optional<Offset> allocate_low(std::size_t bytes) override {
    return bytes > kSmall ? counted(large_.allocate_low(bytes), bytes) : allocate(bytes);
  }

  std::size_t free(Offset offset) noexcept override {
    const NodeId id = map_.take(offset);
    if (id == kNone) {
      const bool out = !is_slab(offset);
      assert(out && "freed a block that is not out");
      const std::size_t bytes = out ? large_.free(offset) : 0;
      if (bytes > 0) tally_.give(bytes);
      return bytes;
    }
    Slab& slab = slabs_[id];
    const std::size_t slot = slab.slot;
    if (slab.unused == 0) list(id);
    slab.unused |= std::uint64_t{1} << ((offset - slab.offset) / slot);
    tally_.give(slot);
    if (slab.unused == slab.all()) drop_slab(id);
    return slot;
  }

  std::size_t size_of(Offset offset) const noexcept override {
    const NodeId id = map_.find(offset);
    if (id != kNone) return slabs_[id].slot;
    return is_slab(offset) ? 0 : large_.size_of(offset);
  }

  void extend(std::size_t bytes) override { large_.extend(bytes); }
  std::size_t missing(std::size_t bytes) const noexcept override {
    if (bytes <= kSmall && partial_[class_of(slot_bytes(bytes))] != kNone) return 0;
    return large_.missing(bytes);
  }
  Need need(std::size_t bytes) const noexcept override { return large_.need(bytes); }

  void withdraw(std::size_t granule, const Want& want) override { large_.withdraw(granule, want); }
  void restore(Offset granule) override { large_.restore(granule); }

  StrategyUse use() const noexcept override {
    const StrategyUse large = large_.use();
    Tally tally = tally_;
    tally.capacity = large.capacity;
    tally.withdrawn = large.withdrawn;
    std::size_t largest = large.largest_free;
    for (const NodeId id : partial_)
      if (id != kNone) largest = std::max(largest, slabs_[id].slot);
    return tally.use(largest);
  }

  std::size_t count() const noexcept override { return tally_.count; }

  void visit_free(const Visit& visit) const override;
  void visit_holes(const Visit& visit) const override { large_.visit_free(visit); }
  void visit_taken(const Visit& visit) const override;

 private:
  std::optional<Offset> counted(std::optional<Offset> offset, std::size_t bytes) {
    if (offset) tally_.take(block_bytes(bytes));
    return offset;
  }

  // A slab's own place is a block of large_, but no block of ours.
  bool is_slab(Offset offset) const { return bases_.find(offset) != kNone; }

  void list(NodeId id) {
    NodeId& head = partial_[class_of(slabs_[id].slot)];
    slabs_[id].previous = kNone;
    slabs_[id].next = head;
    if (head != kNone) slabs_[head].previous = id;
    head = id;
  }
  void unlist(NodeId id) {
    const Slab& slab = slabs_[id];
    (slab.previous == kNone ? partial_[class_of(slab.slot)] : slabs_[slab.previous].next) =
        slab.next;
    if (slab.next != kNone) slabs_[slab.next].previous = slab.previous;
  }

  NodeId new_slab(std::size_t slot) {
    Slab slab{.offset = 0, .slot = slot, .unused = 0};
    const auto offset = large_.allocate(slab.bytes());
    if (!offset) return kNone;
    slab.offset = *offset;
    slab.unused = slab.all();
    NodeId id = unused_;
    if (id == kNone) {
      id = static_cast<NodeId>(slabs_.size());
      slabs_.emplace_back();
    } else {
      unused_ = slabs_[id].next;
    }
    slabs_[id] = slab;
    bases_.insert(slab.offset, id);
    list(id);
    return id;
  }

  void drop_slab(NodeId id) {
    unlist(id);
    bases_.take(slabs_[id].offset);
    large_.free(slabs_[id].offset);
    slabs_[id] = {.next = unused_};
    unused_ = id;
  }

  // Slots of every slab that are free (or are not).
  void add_slots(bool free, std::vector<Span>& spans) const {
    for (const Slab& slab : slabs_) {
      if (slab.slot == 0) continue;
      for (std::size_t i = 0; i < slab.slots(); ++i)
        if (((slab.unused >> i) & 1) == (free ? 1u : 0u))
          spans.push_back({slab.offset + i * slab.slot, slab.slot});
    }
  }

  TableStrategy<HolesBySize> large_;
  std::vector<Slab> slabs_;  // a slot of 0 bytes: unused
  NodeId unused_ = kNone;
  std::array<NodeId, kClasses> partial_;  // slabs with free slots, by slot size
  OffsetMap map_, bases_;                 // of slots out and of slabs: to the slab
  Tally tally_;
};

void SlabStrategy::visit_free(const Visit& visit) const {
  std::vector<Span> spans;
  large_.visit_free([&](Offset offset, std::size_t bytes) { spans.push_back({offset, bytes}); });
  add_slots(true, spans);
  visit_merged(std::move(spans), visit);
}

void SlabStrategy::visit_taken(const Visit& visit) const {
  large_.visit_taken([&](Offset offset, std::size_t bytes) {
    if (!is_slab(offset)) visit(offset, bytes);
  });
  std::vector<Span> slots;
  add_slots(false, slots);
  for (const Span& slot : slots) visit(slot.offset, slot.bytes);
}

}  // namespace

std::unique_ptr<Strategy> make_slab() { return std::make_unique<SlabStrategy>(); }

}  // namespace sluice::memory

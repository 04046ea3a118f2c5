// The ids of texts that come again, for one thread. A text of up to 15 bytes is its own key of 128
// bits, in a slot of 32 bytes with up to three ids; others are beside. When it is full it starts
// anew: at most some 10 MB.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::text {

// Ids behind each other; growing does not clear what is not used yet.
class IdBuffer {
 public:
  std::uint32_t* reserve(std::size_t more) {
    if (size_ + more > ids_.size()) ids_.resize(2 * (size_ + more));
    return ids_.data() + size_;
  }
  void advance(std::size_t count) noexcept { size_ += count; }
  void push(std::uint32_t id) {
    *reserve(1) = id;
    advance(1);
  }
  void append(std::span<const std::uint32_t> more) {
    if (more.empty()) return;
    std::memcpy(reserve(more.size()), more.data(), more.size_bytes());
    advance(more.size());
  }
  void shorten(std::size_t size) noexcept { size_ = size; }
  std::size_t size() const noexcept { return size_; }
  std::span<const std::uint32_t> from(std::size_t begin) const noexcept {
    return {ids_.data() + begin, size_ - begin};
  }

 private:
  std::vector<std::uint32_t> ids_;
  std::size_t size_ = 0;
};

// A text of up to 15 bytes, and its length in the last byte.
struct ShortKey {
  static constexpr std::size_t kMostBytes = 15;

  std::uint64_t low = 0, high = 0;

  // 16 bytes at `text` can be read; the first `length` count.
  static ShortKey of_padded(const char* text, std::size_t length) noexcept {
    ShortKey key;
    std::memcpy(&key.low, text, 8);
    std::memcpy(&key.high, text + 8, 8);
    key.low &= length >= 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << 8 * length) - 1;
    key.high &= length <= 8 ? 0 : (std::uint64_t{1} << 8 * (length - 8)) - 1;
    key.high |= std::uint64_t{length} << 56;
    return key;
  }
  static ShortKey of(std::string_view text) noexcept {
    char padded[16] = {};
    std::memcpy(padded, text.data(), text.size());
    return of_padded(padded, text.size());
  }
  bool operator==(const ShortKey&) const = default;
  std::uint64_t hash() const noexcept {
    const std::uint64_t mixed = (low ^ high * 0x9E3779B97F4A7C15) * 0xD6E8FEB86659FD93;
    return mixed ^ mixed >> 32;
  }
};

class IdCache {
 public:
  static constexpr std::size_t kMostBytes = 128;  // longer texts are not kept

  IdCache() { clear(); }

  // Appends the ids of a text; false when it is not known.
  bool find(const ShortKey& key, IdBuffer& ids) const {
    const Slot& slot = slots_[place(key)];
    if (slot.count <= kInline) {
      std::memcpy(ids.reserve(kInline), slot.ids, sizeof slot.ids);
      ids.advance(slot.count);
      return slot.key.high != 0;
    }
    ids.append(std::span(more_).subspan(slot.ids[0], slot.count));
    return true;
  }
  bool find(std::string_view text, IdBuffer& ids) const {
    return text.size() <= ShortKey::kMostBytes ? find(ShortKey::of(text), ids)
                                               : find_long(text, ids);
  }

  // The text is not known yet, and not empty.
  void insert(std::string_view text, std::span<const std::uint32_t> ids);

 private:
  static constexpr std::size_t kInline = 3;
  static constexpr std::size_t kFirstSlots = 1 << 12, kMostSlots = 1 << 17;
  static constexpr std::size_t kMostMore = 1 << 20, kMostLongBytes = 2 << 20;

  struct Slot {
    ShortKey key;
    std::uint32_t ids[kInline] = {};  // or the place of more
    std::uint32_t count = 0;
  };
  struct Long {
    std::uint64_t hash = 0;
    std::uint32_t begin = 0, length = 0;  // of the text; no length: free
    std::uint32_t ids = 0, count = 0;
  };

  std::size_t place(const ShortKey& key) const noexcept {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = key.hash() & mask;
    while (slots_[at].key.high != 0 && !(slots_[at].key == key)) at = (at + 1) & mask;
    return at;
  }
  std::size_t place(std::string_view text, std::uint64_t hash) const noexcept;
  bool find_long(std::string_view text, IdBuffer& ids) const;
  void insert_long(std::string_view text, std::span<const std::uint32_t> ids);
  void grow_slots();
  void grow_long();
  std::uint32_t keep(std::span<const std::uint32_t> ids);
  void clear();

  std::vector<Slot> slots_;
  std::vector<Long> long_;
  std::string texts_;
  std::vector<std::uint32_t> more_;
  std::size_t used_ = 0, long_used_ = 0;
};

}  // namespace sluice::text

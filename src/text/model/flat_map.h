// A hash table of 64-bit keys that is filled once and read often: open addressing in two arrays.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice::text {

inline std::uint64_t mixed(std::uint64_t key) noexcept {
  key *= 0x9E3779B97F4A7C15;
  return key ^ key >> 32;
}

template <class Value>
class FlatMap {
 public:
  FlatMap() : slots_(16) {}

  // The value of a key, which is added with `value` when it is new. The key is not ~0.
  Value& insert(std::uint64_t key, Value value) {
    if (2 * (size_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[place(key)];
    if (slot.key == kEmpty) {
      slot = {key, value};
      ++size_;
    }
    return slot.value;
  }

  const Value* find(std::uint64_t key) const noexcept {
    const Slot& slot = slots_[place(key)];
    return slot.key == kEmpty ? nullptr : &slot.value;
  }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = kEmpty;
    Value value{};
  };

  std::size_t place(std::uint64_t key) const noexcept {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = mixed(key) & mask;
    while (slots_[at].key != kEmpty && slots_[at].key != key) at = (at + 1) & mask;
    return at;
  }

  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.key != kEmpty) slots_[place(slot.key)] = slot;
  }

  std::vector<Slot> slots_;
  std::size_t size_ = 0;
};

}  // namespace sluice::text

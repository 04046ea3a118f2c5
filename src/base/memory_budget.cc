#include "base/memory_budget.h"

#include "base/units.h"

namespace sluice {

bool MemoryBudget::take(std::uint64_t bytes) noexcept {
  auto used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ || used > limit_ - bytes) {
      (whole_ != nullptr ? whole_ : this)->refused_.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  if (whole_ == nullptr || whole_->take(bytes)) return true;
  used_.fetch_sub(bytes, std::memory_order_relaxed);
  return false;
}

void MemoryBudget::give(std::uint64_t bytes) noexcept {
  used_.fetch_sub(bytes, std::memory_order_relaxed);
  if (whole_ != nullptr) return whole_->give(bytes);
  if (bytes >= kLarge) returned_.fetch_add(bytes, std::memory_order_relaxed);
}

MemoryBudget::Charge MemoryBudget::charge(std::uint64_t bytes) {
  Charge made(*this);
  if (made.resize(bytes)) return made;
  const auto left = limit_ - used_.load();
  throw NoRoom("this needs " + human_bytes(bytes) + " of memory, and of the " +
               human_bytes(limit_) + " for requests " + human_bytes(left) + " are left now");
}

bool MemoryBudget::Charge::resize(std::uint64_t bytes) noexcept {
  if (budget_ != nullptr && bytes > bytes_ && !budget_->take(bytes - bytes_)) return false;
  if (budget_ != nullptr && bytes < bytes_) budget_->give(bytes_ - bytes);
  bytes_ = bytes;
  return true;
}

void MemoryBudget::Charge::release() noexcept {
  if (budget_ != nullptr && bytes_ > 0) budget_->give(bytes_);
  bytes_ = 0;
}

}  // namespace sluice

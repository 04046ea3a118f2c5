#include "base/memory_budget.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/units.h"

namespace sluice {

bool MemoryBudget::take(std::uint64_t bytes) noexcept {
  auto used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ || used > limit_ - bytes) {
      (parent_ != nullptr ? parent_ : this)->refused_.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  if (parent_ == nullptr || parent_->take(bytes)) return true;
  used_.fetch_sub(bytes, std::memory_order_relaxed);
  return false;
}

void MemoryBudget::give(std::uint64_t bytes) noexcept {
  used_.fetch_sub(bytes, std::memory_order_relaxed);
  if (parent_ != nullptr) return parent_->give(bytes);
  returned_.fetch_add(bytes, std::memory_order_relaxed);
}

MemoryBudget::Charge MemoryBudget::charge(std::uint64_t bytes) {
  Charge made(*this);
  made.hold(bytes);
  return made;
}

// `bytes` in all, `more` than before.
void MemoryBudget::refuse(std::uint64_t bytes, std::uint64_t more, std::string_view what) const {
  const auto needs = fmt::format("{} {} of memory", what, human_bytes(bytes));
  const auto max = parent_ != nullptr ? std::min(limit_, parent_->limit_) : limit_;
  const auto whose = [](const MemoryBudget& one) {
    return one.parent_ != nullptr ? "one client may hold" : "all requests share";
  };
  if (bytes > max)
    throw Error(Code::invalid_argument, fmt::format("{}, more than the {} that {}: ask for less",
                                                    needs, human_bytes(max), whose(*this)));
  const auto used = used_.load();
  const bool is_own = parent_ == nullptr || used > limit_ - more;
  const auto& full = is_own ? *this : *parent_;
  const auto left = full.limit_ - std::min(full.limit_, full.used_.load());
  throw BudgetExhausted(fmt::format("{}, and of the {} that {} {} are left now", needs,
                                    human_bytes(full.limit_), whose(full), human_bytes(left)));
}

bool MemoryBudget::Charge::resize(std::uint64_t bytes) noexcept {
  if (budget_ != nullptr && bytes > bytes_ && !budget_->take(bytes - bytes_)) return false;
  if (budget_ != nullptr && bytes < bytes_) budget_->give(bytes_ - bytes);
  bytes_ = bytes;
  return true;
}

void MemoryBudget::Charge::hold(std::uint64_t bytes, std::string_view what) {
  const auto before = bytes_;
  if (!resize(bytes)) budget_->refuse(bytes, bytes - before, what);
}

void MemoryBudget::Charge::release() noexcept {
  if (budget_ != nullptr && bytes_ > 0) budget_->give(bytes_);
  bytes_ = 0;
}

}  // namespace sluice

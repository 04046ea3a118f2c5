#include "broker/ledger/hold_budgets.h"

#include <algorithm>
#include <utility>

namespace sluice::broker {

namespace {

constexpr std::size_t kHoldBudgetsToSweep = 1024;
constexpr double kComesBack = 4;  // seconds without kept capacity that restore one with

}  // namespace

// As of now; null where there is no limit.
HoldBudgets::Budget* HoldBudgets::budget_of(const Entry& entry, Instant now) {
  if (entry.peer == nullptr || entry.lease.request.by_admin) return nullptr;
  auto& budget = budgets_.try_emplace(entry.peer->name, Budget{0, now}).first->second;
  const auto passed = seconds_between(budget.as_of, now);
  if (passed <= 0) return &budget;  // another of its requests was examined in this pass
  budget.used_s += std::exchange(budget.is_kept, false) ? passed : -passed / kComesBack;
  budget.used_s = std::max(0.0, budget.used_s);
  budget.as_of = now;
  const auto limit = policy_.hold_for.count();
  budget.is_spent = budget.used_s >= (budget.is_spent ? limit / 2 : limit);
  return &budget;
}

bool HoldBudgets::may_hold(const Entry& entry, Instant now) {
  const auto* budget = budget_of(entry, now);
  return budget == nullptr || !budget->is_spent;
}

void HoldBudgets::note_kept(const Entry& entry, Instant now) {
  if (auto* budget = budget_of(entry, now); budget != nullptr) budget->is_kept = true;
}

void HoldBudgets::forget_full(Instant now) {
  if (budgets_.size() <= kHoldBudgetsToSweep) return;
  std::erase_if(budgets_, [&](const auto& named) {
    const auto& budget = named.second;
    return !budget.is_kept && seconds_between(budget.as_of, now) > kComesBack * budget.used_s;
  });
}

}  // namespace sluice::broker

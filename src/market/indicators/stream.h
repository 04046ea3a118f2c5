// An indicator bar by bar: the same bits as a batch that runs serially, and a state that
// can be kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "market/indicators/plan/plan.h"

namespace sluice::market {

class Stream {
 public:
  explicit Stream(const Plan& plan);

  // One bar: `in` holds plan().inputs values, `out` takes plan().outputs; NaN during the
  // look-back. Bars before the first that is complete (without a NaN) do not count.
  void update(std::span<const double> in, std::span<double> out);

  // The outputs of update() without a change of the state, for a bar that is not closed yet.
  void peek(std::span<const double> in, std::span<double> out) const;

  const Plan& plan() const noexcept { return plan_; }
  std::int64_t bars() const noexcept { return bars_; }  // taken in that counted

  // The complete state, for the same build on the same kind of machine. load() throws
  // invalid_argument for a state that is not of such a plan.
  std::vector<std::byte> save() const;
  void load(std::span<const std::byte> state);

 private:
  Plan plan_;
  std::int64_t bars_ = 0;
  std::vector<std::byte> rule_;  // the rule's struct
  std::vector<double> ring_;
};

}  // namespace sluice::market

// Where a call should run: a rule without clock, device or lock.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "compute/costs.h"
#include "compute/operation.h"

namespace sluice::compute {

enum class Where { automatic, cpu, gpu };
std::optional<Where> where_from(std::string_view name) noexcept;  // "auto", "cpu", "gpu"

struct Question {
  std::string_view operation;
  double work = 0;  // of all items
  Traffic traffic{};
  Where wanted = Where::automatic;
  std::string gpu_unusable{};  // why no GPU can be used; empty when one can
};

struct Choice {
  Processor on = Processor::cpu;
  std::optional<double> cpu_s, gpu_s;  // expected, copies included; absent: not known yet
  std::string reason;                  // one sentence for people
};

// The quicker one by what is known. What is not known is tried: the CPU first, the GPU
// unless copying alone would take longer; a loser that is near and was tried less than
// kTries times is tried again, since one slow run proves little.
inline constexpr int kTries = 3;
Choice choose(const Question& question, const Costs& costs);

}  // namespace sluice::compute

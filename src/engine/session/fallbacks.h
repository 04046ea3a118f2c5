// Calls that were for a GPU and ran on the CPU: counted, and told.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"
#include "device/health/fallback.h"

namespace sluice::engine {

using device::Fallback;
using device::kFallbacks;

struct FallbackCounts {
  std::array<std::uint64_t, kFallbacks> by_reason{};
  std::string last{};  // why the last did; empty where none did

  std::uint64_t of(Fallback reason) const { return by_reason[static_cast<std::size_t>(reason)]; }
  std::uint64_t total() const;
};
// "3 calls ran on the CPU (out_of_memory 2, lost 1), the last because ..."; empty for none.
std::string describe(const FallbackCounts& counts);

// Of a session. Thread-safe.
class Fallbacks {
 public:
  using Warn = std::function<void(const std::string&)>;
  explicit Fallbacks(Warn warn = {});  // none: the log

  // A warning for the first of a reason, then one a minute at most, which says how many there were.
  void note(Fallback reason, const std::string& why, Instant now);
  FallbackCounts counts() const;

 private:
  struct Told {
    std::optional<Instant> at{};
    std::uint64_t count = 0;  // when it was told
  };

  const Warn warn_;
  mutable Mutex mutex_;
  FallbackCounts counts_ GUARDED_BY(mutex_);
  std::array<Told, kFallbacks> told_ GUARDED_BY(mutex_);
};

}  // namespace sluice::engine

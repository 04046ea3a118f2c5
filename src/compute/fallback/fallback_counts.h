// Counts and logs the calls for a GPU that ran on the CPU, of arrays (Compute) and of models
// (engine::Session); the metric sluice_gpu_fallbacks_total has those of the process. The policy
// that leads there is in batched_run.h. Of arrays only calls that began on the GPU count.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/mutex.h"
#include "device/gpu_status.h"

namespace sluice::compute {

enum class Fallback {
  out_of_memory,  // the GPU's memory did not suffice for one item
  transient,      // the GPU failed this call
  lost,           // the GPU failed in this call, or has not recovered since
  unsupported,    // the GPU cannot run that operation or model, or not in these shapes
  vetoed,         // of models: the health check forbids it for now
};
inline constexpr std::size_t kFallbacks = 5;
std::string_view to_string(Fallback reason) noexcept;
Fallback fallback_of(device::GpuStatus status) noexcept;

// All fallbacks of this process, by reason. Thread-safe.
std::array<std::uint64_t, kFallbacks> process_fallbacks() noexcept;

struct FallbackCounts {
  std::array<std::uint64_t, kFallbacks> by_reason{};
  std::string last{};  // the reason of the last one; empty if there was none

  std::uint64_t of(Fallback reason) const { return by_reason[static_cast<std::size_t>(reason)]; }
  std::uint64_t total() const;
};
// "3 calls ran on the CPU (out_of_memory 2, lost 1), the last because ..."; empty for none.
std::string describe(const FallbackCounts& counts);

// The fallbacks of one session or one Compute. Thread-safe.
class Fallbacks {
 public:
  using Warn = std::function<void(const std::string&)>;
  explicit Fallbacks(Warn warn = {});  // default: writes to the log

  // Warns at the first fallback of a reason, then at most once a minute with their number.
  void note(Fallback reason, const std::string& why, Instant now);
  FallbackCounts counts() const;

 private:
  struct LastWarning {
    std::optional<Instant> at{};
    std::uint64_t count = 0;  // when it was warned
  };

  const Warn warn_;
  mutable Mutex mutex_;
  FallbackCounts counts_ GUARDED_BY(mutex_);
  std::array<LastWarning, kFallbacks> last_warning_ GUARDED_BY(mutex_);
};

}  // namespace sluice::compute

#include "compute/fallback/batched_run.h"

#include <algorithm>
#include <utility>

#include "base/cancellation.h"
#include "base/error.h"

namespace sluice::compute {

BatchedResult run_in_batches(std::size_t count, std::size_t batch, const BatchedCall& call) {
  BatchedResult result;
  bool has_trimmed = false;  // since the last batch that fitted
  while (result.done < count) {
    throw_if_cancelled();
    const std::size_t tried = std::min(batch, count - result.done);
    try {
      call.run(result.done, result.done + tried);
      result.done += tried;
      ++result.batches;
      result.largest = std::max(result.largest, tried);
      has_trimmed = false;
    } catch (const Error& error) {
      if (error.code() != Code::exhausted) throw;
      if (!std::exchange(has_trimmed, true) && call.trim() > 0) continue;
      if (tried == 1 || !call.may_split()) {
        result.exhausted = std::current_exception();
        return result;
      }
      batch = (tried + 1) / 2;
    }
  }
  return result;
}

}  // namespace sluice::compute

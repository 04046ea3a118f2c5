#include "compute/copy.h"

#include <algorithm>

#include "compute/workers.h"

namespace sluice::compute {
namespace {

constexpr std::size_t kGrain = 1 << 20;

void copy_on_cpu(const Call& call, Workers& workers) {
  workers.each(call.items, kGrain, [&](std::size_t begin, std::size_t end) {
    std::copy(call.input<char>(0) + begin, call.input<char>(0) + end, call.output<char>(0) + begin);
  });
}

}  // namespace

const Operation& copy_operation() {
  static const Operation operation{"copy", copy_on_cpu, copy_gpu_function()};
  return operation;
}

}  // namespace sluice::compute

// main() of the *_gpu_test programs: exit code 77 and the reason on a machine
// whose GPU cannot be used, which ctest reports as skipped.
#include <gmock/gmock.h>

#include <cstdio>

#include "device/bench/bench.h"

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  const auto found = sluice::device::bench_gpus();
  if (found.gpus.empty()) {
    std::printf("SKIPPED: no usable GPU: %s\n", found.why_none.c_str());
    return 77;
  }
  return RUN_ALL_TESTS();
}

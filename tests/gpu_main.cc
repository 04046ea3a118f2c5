// main() of the *_gpu_test programs: exit code 77 and the reason on a machine
// whose GPU cannot be used, which ctest reports as skipped.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <cstdio>

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  int count = 0;
  const auto status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    std::printf("SKIPPED: no usable GPU: %s\n",
                status == cudaSuccess ? "none is visible" : cudaGetErrorString(status));
    return 77;
  }
  return RUN_ALL_TESTS();
}

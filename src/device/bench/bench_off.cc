// Linked instead of the bench_*.cc for CUDA when SLUICE_CUDA is OFF.
#include "base/error.h"
#include "device/bench/bench.h"

namespace sluice::device {

namespace {

constexpr const char* kWhy = "built without CUDA; configure with cmake --preset cuda";

}  // namespace

BenchGpus bench_gpus() { return {{}, kWhy}; }

std::span<const std::string_view> bench_gpu_names() noexcept { return {}; }

std::vector<BenchRow> bench_gpu(std::string_view, const BenchOptions&, const BenchProgress&) {
  throw Error(Code::unavailable, kWhy);
}

}  // namespace sluice::device

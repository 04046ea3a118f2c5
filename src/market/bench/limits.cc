#include "market/bench/limits.h"

#include <algorithm>

#include "compute/copy.h"
#include "device/catalogue.h"
#include "device/host/cpu.h"
#include "market/bench/multiply_adds.h"
#include "market/bench/timing.h"

namespace sluice::market {
namespace {

constexpr device::BenchName kCopy{"copy", "copy within memory"};

}  // namespace

Limits limits_of(compute::Accelerator& gpu, bool quick) {
  const std::size_t bytes = quick ? std::size_t{64} << 20 : std::size_t{1} << 30;
  const auto from = gpu.keep(nullptr, bytes), to = gpu.keep(nullptr, bytes);
  const compute::Call call{
      .in = {{.data = from.get(), .item_bytes = 1, .side = compute::Side::device}},
      .out = {{.data = to.get(), .item_bytes = 1, .side = compute::Side::device}},
      .items = bytes};
  const auto seconds =
      repeated(quick, [&] { return gpu.run(compute::copy_operation(), call).compute; });
  Limits limits{.copy = device::timed_row(kCopy, "B/s", 2.0 * static_cast<double>(bytes), seconds)};
  limits.bytes = limits.copy.value;
  const auto card = device::find_card(gpu.name(), std::nullopt);
  if (!card) return limits;
  limits.copy.peak = card->bandwidth;
  limits.matrix_fp64 = card->peaks.fp64;
  const auto rates = device::vector_rates(*card);
  if (!rates) return limits;
  limits.fp64 = rates->fp64;
  limits.issued = rates->issued;
  limits.special = rates->special;
  limits.shared_bytes = rates->shared_bytes;
  return limits;
}

Limits limits_of(compute::Workers& workers, bool quick) {
  const device::BenchOptions copy{.quick = quick, .only = {"memory_copy"}, .library_dirs = {}};
  Limits limits{.copy =
                    device::bench_cpu(device::detect_cpu(), copy, [](auto, auto, auto) {}).at(0)};
  limits.copy.name = kCopy.name;
  limits.copy.title = kCopy.title;
  limits.bytes = limits.copy.value;
  std::vector<double> rates;
  for (int i = 0; i < 5; ++i) rates.push_back(multiply_adds_per_second(workers));
  limits.fp64 = *std::ranges::max_element(rates);  // what slows it is no limit
  limits.matrix_fp64 = 2 * *limits.fp64;
  return limits;
}

std::optional<double> limit_of(const ResourceNeeds& needs, const Limits& limits) {
  std::optional<double> lowest;
  const auto take = [&](double need, std::optional<double> has) {
    if (need > 0 && has && (!lowest || *has / need < *lowest)) lowest = *has / need;
  };
  take(needs.bytes, limits.bytes);
  take(needs.fp64, limits.fp64);
  take(needs.matrix_fp64, limits.matrix_fp64);
  take(needs.issued, limits.issued);
  take(needs.special, limits.special);
  take(needs.shared_bytes, limits.shared_bytes);
  return lowest;
}

}  // namespace sluice::market

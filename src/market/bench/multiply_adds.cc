#include "market/bench/multiply_adds.h"

#include <atomic>
#include <cstddef>

#include "base/error.h"
#include "device/bench/bench_stats.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "market/bench/multiply_adds.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::market::multiply_adds::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Returns the number of multiply-adds. Ten sums keep two units with a latency of five busy; each
// tends to 2.
std::size_t run(std::size_t rounds, double* sum) {
  const hn::ScalableTag<double> d;
  const auto factor = hn::Set(d, 0.5), one = hn::Set(d, 1.0);
  auto a = hn::Zero(d), b = a, c = a, e = a, f = a, g = a, h = a, i = a, j = a, k = a;
  for (std::size_t r = 0; r < rounds; ++r) {
    a = hn::MulAdd(a, factor, one);
    b = hn::MulAdd(b, factor, one);
    c = hn::MulAdd(c, factor, one);
    e = hn::MulAdd(e, factor, one);
    f = hn::MulAdd(f, factor, one);
    g = hn::MulAdd(g, factor, one);
    h = hn::MulAdd(h, factor, one);
    i = hn::MulAdd(i, factor, one);
    j = hn::MulAdd(j, factor, one);
    k = hn::MulAdd(k, factor, one);
  }
  const auto first = hn::Add(hn::Add(hn::Add(a, b), hn::Add(c, e)), f);
  const auto second = hn::Add(hn::Add(hn::Add(g, h), hn::Add(i, j)), k);
  *sum = hn::GetLane(hn::Add(first, second));
  return 10 * rounds * hn::Lanes(d);
}

}  // namespace sluice::market::multiply_adds::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::market {
namespace multiply_adds {
namespace {
HWY_EXPORT(run);
}
}  // namespace multiply_adds

double multiply_adds_per_second(compute::Workers& workers) {
  using namespace multiply_adds;
  constexpr std::size_t kPieces = 256, kRounds = 100'000;
  std::atomic<std::size_t> count{0};
  std::atomic<bool> right{true};
  const double seconds = device::timed([&] {
    workers.each(kPieces, 1, [&](std::size_t, std::size_t) {
      double sum = 0;
      count += HWY_DYNAMIC_DISPATCH(run)(kRounds, &sum);
      if (sum != 20) right = false;
    });
  });
  require(right, "multiply-adds gave a wrong sum");
  return static_cast<double>(count) / seconds;
}

}  // namespace sluice::market
#endif  // HWY_ONCE

#include "market/bench/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compute/compute.h"
#include "compute/copy.h"
#include "device/catalogue.h"
#include "market/backtest/sweep.h"
#include "market/bench/workload.h"

namespace sluice::market {
namespace {

using compute::Accelerator;
using compute::Call;
using device::BenchRow;

constexpr device::BenchName kBacktest{"backtest", "backtest, moving-average cross"};
constexpr double kBacktestInstructions = 22;  // per bar and set, at least

// At least five times, and for half a second.
std::vector<double> repeated(bool quick, const std::function<double()>& once) {
  std::vector<double> seconds;
  (void)once();
  double sum = 0;
  const std::size_t least = quick ? 3 : 5, most = 200;
  while (seconds.size() < least || (sum < 0.5 && seconds.size() < most && !quick))
    sum += seconds.emplace_back(once());
  return seconds;
}

std::string threads_text(int threads) { return fmt::format("{} threads", threads); }

// ---- what a GPU has ----------------------------------------------------------------------

struct Limits {
  double bytes = 0;                        // a second, as a copy on the card reaches them
  std::optional<double> fp64{}, issued{};  // instructions a second
};

std::optional<double> limit_of(const Needs& needs, const Limits& limits) {
  std::optional<double> least;
  const auto take = [&](double need, std::optional<double> has) {
    if (need > 0 && has && (!least || *has / need < *least)) least = *has / need;
  };
  take(needs.bytes, limits.bytes);
  take(needs.fp64, limits.fp64);
  take(needs.issued, limits.issued);
  if (limits.issued) take(needs.transcendental, *limits.issued / 8);  // a unit for 8 lanes
  return least;
}

// Bytes read and written a second when the card copies within its memory.
double copy_rate(Accelerator& gpu, bool quick) {
  const std::size_t bytes = quick ? std::size_t{64} << 20 : std::size_t{1} << 30;
  const auto from = gpu.keep(nullptr, bytes), to = gpu.keep(nullptr, bytes);
  const Call call{.in = {{.data = from.get(), .item_bytes = 1, .side = compute::Side::device}},
                  .out = {{.data = to.get(), .item_bytes = 1, .side = compute::Side::device}},
                  .items = bytes};
  const auto seconds =
      repeated(quick, [&] { return gpu.run(compute::copy_operation(), call).compute; });
  return 2 * static_cast<double>(bytes) / device::quantile(seconds, 0.5);
}

Limits limits_of(Accelerator& gpu, bool quick) {
  Limits limits{.bytes = copy_rate(gpu, quick)};
  const auto card = device::find_card(gpu.name(), std::nullopt);
  if (!card) return limits;
  if (card->peaks.fp64) limits.fp64 = *card->peaks.fp64 / 2;  // an FMA counts as two
  if (card->peaks.fp32) limits.issued = *card->peaks.fp32 / 2;
  return limits;
}

// ---- one figure ----------------------------------------------------------------------------

BenchRow on_cpu(const Workload& load, compute::Workers& workers, bool quick) {
  const auto seconds = repeated(
      quick, [&] { return device::timed([&] { load.operation->cpu(load.call, workers); }); });
  BenchRow row = device::timed_row(load.what, std::string(load.unit), load.work, seconds);
  row.detail = threads_text(workers.threads());
  return row;
}

// The first items' results of both; the greatest difference as a share of the value.
double difference(const Workload& load, Accelerator& gpu, compute::Workers& workers) {
  const std::size_t items = std::min(load.checked, load.call.items);
  const Call head = slice(load.call, 0, items);
  load.operation->cpu(head, workers);
  std::vector<std::vector<double>> want;
  for (const auto& out : head.out) {
    const auto* const from = static_cast<const double*>(out.data);
    want.emplace_back(from, from + out.bytes(items) / sizeof(double));
  }
  (void)gpu.run(*load.operation, head);
  double worst = 0;
  for (std::size_t k = 0; k < want.size(); ++k)
    for (std::size_t i = 0; i < want[k].size(); ++i) {
      const double got = static_cast<const double*>(head.out[k].data)[i], right = want[k][i];
      if (std::isnan(got) && std::isnan(right)) continue;
      const double apart = std::fabs(got - right) / std::fmax(1, std::fabs(right));
      worst = std::isnan(apart) ? HUGE_VAL : std::fmax(worst, apart);
    }
  return worst;
}

struct Resident {
  Call call;
  std::vector<std::shared_ptr<void>> memory;
};

Resident resident(const Workload& load, Accelerator& gpu) {
  Resident there{load.call, {}};
  const auto keep = [&](compute::Operand& operand, bool filled) {
    const std::size_t bytes = operand.bytes(load.call.items);
    there.memory.push_back(gpu.keep(filled ? operand.data : nullptr, bytes));
    operand.data = there.memory.back().get();
    operand.side = compute::Side::device;
  };
  for (auto& operand : there.call.in) keep(operand, true);
  for (auto& operand : there.call.out) keep(operand, false);
  return there;
}

BenchRow on_gpu(const Workload& load, Accelerator& gpu, compute::Workers& workers,
                const Limits& limits, bool quick) {
  const double apart = difference(load, gpu, workers);
  if (!(apart <= load.tolerance))
    return device::missing_row(load.what, std::string(load.unit),
                               fmt::format("CPU and GPU differ by {:.2g}", apart));
  const Resident there = resident(load, gpu);
  const auto seconds =
      repeated(quick, [&] { return gpu.run(*load.operation, there.call).compute; });
  BenchRow row = device::timed_row(load.what, std::string(load.unit), load.work, seconds);
  row.peak = limit_of(load.needs, limits);
  row.detail = fmt::format("arrays on the card; {:.2g} from the CPU's result", apart);
  return row;
}

// ---- backtest ------------------------------------------------------------------------------

PriceHistory history(std::size_t bars, std::size_t number) {
  PriceHistory h;
  h.ticker = fmt::format("T{}", number);
  double close = 100;
  for (std::size_t t = 0; t < bars; ++t) {
    const double open = close;
    const auto random = static_cast<double>(device::mix(number << 32 | t) >> 11) * 0x1p-53;
    close = std::fmax(1, open * (1 + 0.04 * (random - 0.49)));
    h.days.push_back(static_cast<std::int32_t>(10000 + t));
    h.open.push_back(open);
    h.close.push_back(close);
    h.high.push_back(std::fmax(open, close));
    h.low.push_back(std::fmin(open, close));
  }
  return h;
}

// Remembers how long the device itself took.
class Stopwatch final : public Accelerator {
 public:
  explicit Stopwatch(std::shared_ptr<Accelerator> gpu) : gpu_(std::move(gpu)) {}
  std::string name() const override { return gpu_->name(); }
  std::string why_not() override { return gpu_->why_not(); }
  compute::Taken run(const compute::Operation& operation, const Call& call) override {
    const auto taken = gpu_->run(operation, call);
    seconds += taken.compute;
    return taken;
  }
  std::size_t trim() noexcept override { return gpu_->trim(); }

  double seconds = 0;

 private:
  const std::shared_ptr<Accelerator> gpu_;
};

BenchRow backtest_row(const std::shared_ptr<Accelerator>& gpu, const Limits& limits, bool quick) {
  const std::size_t tickers = quick ? 8 : gpu ? 505 : 20, bars = 5402;
  const auto watch = gpu ? std::make_shared<Stopwatch>(gpu) : nullptr;
  compute::Compute compute({.accelerator = watch});
  std::vector<PriceHistory> histories;
  for (std::size_t i = 0; i < tickers; ++i) histories.push_back(history(bars, i + 1));
  const std::vector<Axis> axes =
      gpu ? std::vector{axis_from("fast", "2:101:1"), axis_from("slow", "110:209:1")}
          : std::vector{axis_from("fast", "2:41:1"), axis_from("slow", "50:74:1")};
  const SweepOptions options{.sets = grid(Strategy::sma_cross, axes),
                             .where = gpu ? compute::Where::gpu : compute::Where::cpu};
  const double work = static_cast<double>(tickers * bars * options.sets.size());
  const auto seconds = repeated(quick, [&] {
    if (watch) watch->seconds = 0;
    const SweepResult result = sweep(compute, histories, options);
    return watch ? watch->seconds : result.seconds;
  });
  BenchRow row = device::timed_row(kBacktest, "bar/s", work, seconds);
  if (gpu) row.peak = limit_of({.issued = kBacktestInstructions}, limits);
  row.detail = fmt::format("{} tickers x {} bars x {} sets", tickers, bars, options.sets.size());
  return row;
}

template <class Run>
BenchRow row_or_why(device::BenchName what, std::string_view unit, Run run) {
  try {
    return run();
  } catch (const Error& error) {
    return device::missing_row(what, std::string(unit), std::string(error.reason()));
  }
}

}  // namespace

std::vector<BenchRow> bench_cpu(compute::Workers& workers, const device::BenchOptions& options,
                                const device::BenchProgress& progress) {
  std::vector<BenchRow> rows;
  const auto scale = options.quick ? Scale::quick : Scale::cpu;
  for (const Figure& figure : figures()) {
    if (!options.wants(figure.what.name)) continue;
    progress(figure.what.title, rows.size(), figures().size() + 1);
    rows.push_back(row_or_why(figure.what, "", [&] {
      return on_cpu(figure.make(figure.what, scale), workers, options.quick);
    }));
  }
  if (options.wants(kBacktest.name))
    rows.push_back(
        row_or_why(kBacktest, "bar/s", [&] { return backtest_row({}, {}, options.quick); }));
  return rows;
}

std::vector<BenchRow> bench_gpu(const std::shared_ptr<Accelerator>& gpu,
                                const device::BenchOptions& options,
                                const device::BenchProgress& progress) {
  compute::Workers workers;
  const Limits limits = limits_of(*gpu, options.quick);
  std::vector<BenchRow> rows;
  const auto scale = options.quick ? Scale::quick : Scale::gpu;
  for (const Figure& figure : figures()) {
    if (figure.cached || !options.wants(figure.what.name)) continue;
    progress(figure.what.title, rows.size(), figures().size());
    rows.push_back(row_or_why(figure.what, "", [&] {
      return on_gpu(figure.make(figure.what, scale), *gpu, workers, limits, options.quick);
    }));
  }
  if (options.wants(kBacktest.name))
    rows.push_back(
        row_or_why(kBacktest, "bar/s", [&] { return backtest_row(gpu, limits, options.quick); }));
  return rows;
}

}  // namespace sluice::market

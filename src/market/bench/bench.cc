#include "market/bench/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "market/bench/limits.h"
#include "market/bench/timing.h"
#include "market/bench/workload.h"

namespace sluice::market {
namespace {

using compute::Accelerator;
using compute::Call;
using device::BenchRow;

// ---- the CPU -------------------------------------------------------------------------------

BenchRow on_cpu(const BenchCase& bench_case, compute::Workers& workers, const Limits& limits,
                bool quick) {
  const Workload load = bench_case.make(bench_case.which, quick ? Scale::quick : Scale::cpu);
  const auto seconds = repeated(
      quick, [&] { return device::timed([&] { load.operation->cpu(load.call, workers); }); });
  BenchRow row = device::timed_row(bench_case.what, std::string(load.unit), load.work, seconds);
  row.peak = limit_of(load.needs, limits);
  row.detail = workers.threads() == 1 ? "one thread" : fmt::format("{} threads", workers.threads());
  if (!load.note.empty()) row.detail += "; " + load.note;
  return row;
}

// ---- a GPU ---------------------------------------------------------------------------------

using Bytes = std::vector<std::byte>;

std::vector<Bytes> results_of(const Call& call) {
  std::vector<Bytes> results;
  for (const auto& out : call.out) {
    const auto* const from = static_cast<const std::byte*>(out.data);
    results.emplace_back(from, from + out.bytes(call.items));
  }
  return results;
}

// The largest relative difference. Integers stored in place of doubles are subnormal: they must be
// equal.
template <class T>
double difference(const Bytes& got, const Bytes& want) {
  double worst = 0;
  for (std::size_t at = 0; at < want.size(); at += sizeof(T)) {
    if (std::memcmp(&got[at], &want[at], sizeof(T)) == 0) continue;
    T a, b;
    std::memcpy(&a, &got[at], sizeof a);
    std::memcpy(&b, &want[at], sizeof b);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const bool integer = std::fpclassify(b) == FP_SUBNORMAL;
    const double apart = std::fabs(static_cast<double>(a) - static_cast<double>(b)) /
                         std::fmax(1, std::fabs(static_cast<double>(b)));
    worst = integer || std::isnan(apart) ? HUGE_VAL : std::fmax(worst, apart);
  }
  return worst;
}

// Returns the difference of the results of the first items.
double difference(const Workload& load, Accelerator& gpu, compute::Workers& workers) {
  const Call head = slice(load.call, 0, std::min(load.checked, load.call.items));
  load.operation->cpu(head, workers);
  const auto want = results_of(head);
  (void)gpu.run(*load.operation, head);
  const auto got = results_of(head);
  double worst = 0;
  for (std::size_t k = 0; k < want.size(); ++k)
    worst = std::fmax(worst, load.results == Number::fp32 ? difference<float>(got[k], want[k])
                                                          : difference<double>(got[k], want[k]));
  return worst;
}

struct Resident {
  Call call;
  std::vector<std::shared_ptr<void>> memory;
};

Resident resident(const Call& call, Accelerator& gpu) {
  Resident there{call, {}};
  const auto keep = [&](compute::Operand& operand, bool filled) {
    const std::size_t bytes = operand.bytes(call.items);
    there.memory.push_back(gpu.keep(filled ? operand.data : nullptr, bytes));
    operand.data = there.memory.back().get();
    operand.side = compute::Side::device;
  };
  for (auto& operand : there.call.in) keep(operand, true);
  for (auto& operand : there.call.out) keep(operand, false);
  return there;
}

std::vector<double> on_the_card(const compute::Operation& operation, const Call& call,
                                Accelerator& gpu, bool quick) {
  const Resident there = resident(call, gpu);
  return repeated(quick, [&] { return gpu.run(operation, there.call).compute; });
}

std::vector<double> from_the_host(const compute::Operation& operation, const Call& call,
                                  Accelerator& gpu, bool quick) {
  return repeated(quick, [&] {
    const compute::Taken taken = gpu.run(operation, call);
    return taken.copy_in + taken.compute + taken.copy_out;
  });
}

BenchRow on_gpu(const BenchCase& bench_case, Accelerator& gpu, compute::Workers& workers,
                const Limits& limits, bool quick) {
  const Workload load = bench_case.make(bench_case.which, quick ? Scale::quick : Scale::gpu);
  const double apart = difference(load, gpu, workers);
  if (!(apart <= load.tolerance))
    return device::missing_row(bench_case.what, std::string(load.unit),
                               fmt::format("CPU and GPU differ by {:.2g}", apart));
  const bool host = bench_case.measured == Measured::from_host_to_host_on_gpu;
  BenchRow row = device::timed_row(
      bench_case.what, std::string(load.unit), load.work,
      (host ? from_the_host : on_the_card)(*load.operation, load.call, gpu, quick));
  row.peak = limit_of(load.needs, limits);
  row.detail = fmt::format("{}; {:.2g} from the CPU's result{}{}",
                           host ? "copies included" : "arrays on the card", apart,
                           load.note.empty() ? "" : "; ", load.note);
  if (load.peer) {
    const auto seconds = on_the_card(*load.peer->operation, load.peer->call, gpu, quick);
    row.peers.push_back(
        {std::string(load.peer->name), load.peer->work / device::quantile(seconds, 0.5)});
  }
  return row;
}

// ---- all of them ---------------------------------------------------------------------------

template <class Run>
std::vector<BenchRow> rows_of(const Limits& limits, Measured not_these,
                              const device::BenchOptions& options,
                              const device::BenchProgress& progress, Run run) {
  std::vector<BenchRow> rows;
  if (options.wants(limits.copy.name)) rows.push_back(limits.copy);
  for (const BenchCase& bench_case : bench_cases()) {
    const bool elsewhere = bench_case.measured == not_these ||
                           (not_these == Measured::on_gpu &&
                            bench_case.measured == Measured::from_host_to_host_on_gpu);
    if (elsewhere || !options.wants(bench_case.what.name)) continue;
    progress(bench_case.what.title, rows.size(), bench_cases().size());
    try {
      rows.push_back(run(bench_case));
    } catch (const Error& error) {
      rows.push_back(device::missing_row(bench_case.what, "", std::string(error.reason())));
    }
  }
  return rows;
}

}  // namespace

std::vector<BenchRow> bench_cpu(compute::Workers& workers, const device::BenchOptions& options,
                                const device::BenchProgress& progress) {
  const Limits limits = limits_of(workers, options.quick);
  compute::Workers one(1);
  return rows_of(limits, Measured::on_gpu, options, progress, [&](const BenchCase& bench_case) {
    const bool alone = bench_case.measured == Measured::on_one_core;
    return on_cpu(bench_case, alone ? one : workers, limits, options.quick);
  });
}

std::vector<BenchRow> bench_gpu(const std::shared_ptr<Accelerator>& gpu,
                                const device::BenchOptions& options,
                                const device::BenchProgress& progress) {
  compute::Workers workers;
  const Limits limits = limits_of(*gpu, options.quick);
  return rows_of(limits, Measured::on_one_core, options, progress,
                 [&](const BenchCase& bench_case) {
                   return on_gpu(bench_case, *gpu, workers, limits, options.quick);
                 });
}

std::vector<std::string_view> bench_names() {
  std::vector<std::string_view> names{"copy"};
  for (const BenchCase& bench_case : bench_cases()) names.push_back(bench_case.what.name);
  return names;
}

}  // namespace sluice::market

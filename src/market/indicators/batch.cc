#include "market/indicators/batch.h"

#include <fmt/format.h>
#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "market/gpu/gpu_operations.h"
#include "market/indicators/cpu/simd_segments.h"
#include "market/input/require.h"

namespace sluice::market {
namespace {

using compute::Call;

// A segment is at least this many times longer than the bars it reads before its first output.
constexpr std::int64_t kOverhead = 12;

// Outputs above this many bytes bypass the caches: more than the share of the last level.
constexpr std::size_t kLarge = 16 << 20;

// The first bar that no input has a NaN in.
template <class T>
std::int64_t first_complete(const Call& call, const IndicatorParameters& parameters,
                            std::int64_t series) {
  const auto missing = [&](std::int64_t bar) {
    for (std::size_t k = 0; k < call.in.size(); ++k)
      if (std::isnan(call.input<T>(k)[series * parameters.bars + bar])) return true;
    return false;
  };
  std::int64_t bar = 0;
  while (bar < parameters.bars && missing(bar)) ++bar;
  return bar;
}

// Bars before `bar`, and not before `first`, in which no input changed.
template <class T>
std::int64_t unchanged_before(const Call& call, const IndicatorParameters& parameters,
                              std::int64_t series, std::int64_t bar, std::int64_t first) {
  const auto moved = [&](std::int64_t t) {
    for (std::size_t k = 0; k < call.in.size(); ++k) {
      const T* row = call.input<T>(k) + series * parameters.bars;
      if (row[t] != row[t - 1]) return true;
    }
    return false;
  };
  std::int64_t t = bar;
  while (t > first && !moved(t)) --t;
  return bar - t;
}

template <class T>
void add_segments(const Call& call, const IndicatorParameters& parameters, std::int64_t series,
                  std::int64_t begin, std::int64_t parts, std::vector<Segment>& segments) {
  if (parts == 1) return segments.push_back({series, begin, begin, parameters.bars});
  std::int64_t first_before = begin, unchanged = 0;
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t first =
        segment_of(parameters.plan, series, begin, parameters.bars, part, parts).first;
    if (parameters.plan.ratio != 0 && part > 0) {
      const std::int64_t now = unchanged_before<T>(call, parameters, series, first, first_before);
      // After a part without any movement a new segment would read all of it again.
      if (now == first - first_before) {
        segments.back().end =
            segment_of(parameters.plan, series, begin, parameters.bars, part, parts).end;
        first_before = first;
        continue;
      }
      unchanged = now;
    }
    segments.push_back(
        segment_of(parameters.plan, series, begin, parameters.bars, part, parts, unchanged));
    first_before = first;
  }
}

template <class T>
std::vector<Segment> all_segments(const Call& call, const IndicatorParameters& parameters) {
  const auto series = static_cast<std::int64_t>(call.items);
  std::vector<Segment> segments;
  segments.reserve(call.items);
  for (std::int64_t s = 0; s < series; ++s) {
    const std::int64_t begin = first_complete<T>(call, parameters, s);
    const std::int64_t quiet = std::min(begin + parameters.plan.lookback, parameters.bars);
    for (std::size_t k = 0; k < call.out.size(); ++k)
      std::fill_n(call.output<T>(k) + s * parameters.bars, quiet,
                  std::numeric_limits<T>::quiet_NaN());
    if (quiet == parameters.bars) continue;
    const std::int64_t parts =
        segment_count(parameters.plan, parameters.bars - begin, series, kOverhead);
    add_segments<T>(call, parameters, s, begin, parts, segments);
  }
  return segments;
}

template <class T>
Call call_of(const IndicatorParameters& parameters, const Arrays<const T>& in,
             const Arrays<T>& out) {
  const auto bars = static_cast<std::size_t>(parameters.bars);
  const std::size_t item = bars * sizeof(T);
  Call call{.parameters = &parameters, .parameters_bytes = sizeof(IndicatorParameters)};
  call.items = bars == 0 ? 0 : in[0].size() / bars;
  call.work = static_cast<double>(parameters.bars);
  for (const auto& array : in)
    call.in.push_back({.data = const_cast<T*>(array.data()), .item_bytes = item});
  for (const auto& array : out) call.out.push_back({.data = array.data(), .item_bytes = item});
  return call;
}

template <class T>
compute::Outcome run_arrays(compute::Compute& compute, const Plan& plan, const Arrays<const T>& in,
                            const Arrays<T>& out, std::size_t bars,
                            compute::DevicePreference device) {
  require(in.size() == static_cast<std::size_t>(plan.inputs),
          fmt::format("{} input arrays; this indicator reads {}", in.size(), plan.inputs));
  require(out.size() == static_cast<std::size_t>(plan.outputs),
          fmt::format("{} output arrays; this indicator writes {}", out.size(), plan.outputs));
  const std::size_t length = in[0].size();
  for (const auto& array : in) require_length("input", array.size(), length);
  for (const auto& array : out) require_length("output", array.size(), length);
  if (bars == 0) bars = length;
  require(bars == 0 || length % bars == 0,
          fmt::format("{} values are not a multiple of {} bars", length, bars));
  if (length == 0) return {};
  const IndicatorParameters parameters{.plan = plan,
                                       .bars = static_cast<std::int64_t>(bars),
                                       .floats = std::is_same_v<T, float> ? 1 : 0};
  return compute.run(operation_of(plan.rule), call_of<T>(parameters, in, out), device);
}

void run_on_cpu(const Call& call, compute::Workers& workers) {
  const auto& parameters = call.with<IndicatorParameters>();
  const std::vector<Segment> segments = parameters.floats != 0
                                            ? all_segments<float>(call, parameters)
                                            : all_segments<double>(call, parameters);
  std::vector<void*> in, out;
  for (const compute::Operand& operand : call.in) in.push_back(operand.data);
  for (const compute::Operand& operand : call.out) out.push_back(operand.data);
  const std::size_t width = segments_per_group(parameters.plan);
  const bool large = compute::traffic(call).out > kLarge;
  const std::size_t ring = static_cast<std::size_t>(parameters.plan.ring) * width;
  // Few segments are distributed evenly over the threads: idle lanes cost no time.
  const auto threads = static_cast<std::size_t>(workers.threads());
  const std::size_t each =
      std::clamp<std::size_t>((segments.size() + threads - 1) / threads, 1, width);
  workers.each((segments.size() + each - 1) / each, 1, [&](std::size_t begin, std::size_t end) {
    const auto memory = hwy::AllocateAligned<double>(std::max<std::size_t>(ring, 1));
    for (std::size_t g = begin; g < end; ++g)
      run_segments({.parameters = parameters,
                    .in = in.data(),
                    .out = out.data(),
                    .segments = segments.data() + g * each,
                    .count = std::min(each, segments.size() - g * each),
                    .large = large,
                    .ring = memory.get()});
  });
}

void run_on_gpu(const Call& call, compute::LaunchContext& context) {
  const GpuOperations gpu = gpu_operations();
  const bool floats = call.with<IndicatorParameters>().floats != 0;
  (floats ? gpu.indicators_float : gpu.indicators_double)(call, context);
}

}  // namespace

const compute::Operation& operation_of(IndicatorRule rule) {
  static const auto operations = [] {
    std::array<compute::Operation, kRuleCount> table{};
    const GpuFunction gpu = gpu_operations().indicators_double != nullptr ? run_on_gpu : nullptr;
    for (std::size_t i = 0; i < table.size(); ++i)
      table[i] = {.name = kRuleOperations[i], .cpu = run_on_cpu, .gpu = gpu};
    return table;
  }();
  return operations[static_cast<std::size_t>(rule)];
}

template <>
Call make_call<double>(const IndicatorParameters& parameters, const Arrays<const double>& in,
                       const Arrays<double>& out) {
  return call_of(parameters, in, out);
}
template <>
Call make_call<float>(const IndicatorParameters& parameters, const Arrays<const float>& in,
                      const Arrays<float>& out) {
  return call_of(parameters, in, out);
}

compute::Outcome run(compute::Compute& compute, const Plan& plan, const Arrays<const double>& in,
                     const Arrays<double>& out, std::size_t bars,
                     compute::DevicePreference device) {
  return run_arrays(compute, plan, in, out, bars, device);
}
compute::Outcome run(compute::Compute& compute, const Plan& plan, const Arrays<const float>& in,
                     const Arrays<float>& out, std::size_t bars, compute::DevicePreference device) {
  return run_arrays(compute, plan, in, out, bars, device);
}

}  // namespace sluice::market

// The cases of `sluice bench market`: the calculation, its amount of work, and the minimum of the
// machine's resources that it needs.
#pragma once

#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "compute/operation.h"
#include "device/bench/bench_stats.h"

namespace sluice::market {

// Resources of one unit of work. 0 does not count.
struct ResourceNeeds {
  double bytes = 0;         // read and written
  double fp64 = 0;          // double precision instructions of a thread; an FMA is one
  double matrix_fp64 = 0;   // operations that matrix units can do; an FMA is two
  double issued = 0;        // instructions of any kind
  double special = 0;       // approximate functions: exp2, log2, sine
  double shared_bytes = 0;  // from a GPU's shared memory
};

enum class Number { fp64, fp32 };

// A peer's implementation of the same calculation on a GPU.
struct PeerBenchmark {
  std::string_view name;
  const compute::Operation* operation = nullptr;
  compute::Call call{};
  double work = 0;
  std::shared_ptr<void> kept{};
};

struct Workload {
  std::string_view unit;  // "pt/s"
  const compute::Operation* operation = nullptr;
  compute::Call call{};
  double work = 0;  // units in the full call
  ResourceNeeds needs{};
  double tolerance = 0;  // greatest difference of a GPU's result, as a share of the value
  Number results = Number::fp64;
  std::size_t checked = 1;  // items whose results are compared
  std::string note{};       // a remark for the reader
  std::optional<PeerBenchmark> peer{};
  std::vector<std::shared_ptr<void>> kept{};  // what the call refers to
};

enum class Scale { quick, cpu, gpu };
enum class Measured { everywhere, on_one_core, on_gpu, from_host_to_host_on_gpu };

struct BenchCase {
  device::BenchName what;
  Workload (*make)(std::string_view which, Scale scale);
  std::string_view which{};
  Measured measured = Measured::everywhere;
};
std::span<const BenchCase> bench_cases();

// ---- for functions that make workloads ----------------------------------------------------------

// Returns memory that lives as long as the workload. It begins with a cache line, so that a case
// does not depend on the arrays of the one before.
template <class T>
T* reserve(Workload& load, std::size_t count) {
  static_assert(std::is_trivially_copyable_v<T>);
  constexpr std::align_val_t kLine{64};
  auto* const data = static_cast<T*>(::operator new(count * sizeof(T), kLine));
  load.kept.emplace_back(data, [](void* memory) { ::operator delete(memory, kLine); });
  return data;
}

template <class T>
T* keep(Workload& load, const std::vector<T>& values) {
  auto* const data = reserve<T>(load, values.size());
  std::uninitialized_copy(values.begin(), values.end(), data);
  return data;
}

template <class T>
void add_input(Workload& load, const std::vector<T>& values) {
  const std::size_t each = values.size() / load.call.items * sizeof(T);
  load.call.in.push_back({.data = keep(load, values), .item_bytes = each});
}

// Adds one value for all items.
template <class T>
void add_shared(Workload& load, const T& value) {
  load.call.in.push_back({.data = keep(load, std::vector<T>{value}), .shared_bytes = sizeof(T)});
}

template <class T>
void add_output(Workload& load, std::size_t each = 1) {
  auto* const data = reserve<T>(load, load.call.items * each);
  std::uninitialized_fill_n(data, load.call.items * each, T());
  load.call.out.push_back({.data = data, .item_bytes = each * sizeof(T)});
}

template <class P>
void set_parameters(Workload& load, const P& value) {
  load.call.parameters = keep(load, std::vector<P>{value});
  load.call.parameters_bytes = sizeof(P);
}

// Returns a uniform number in [0, 1) for every i.
double uniform(std::uint64_t i);
std::vector<double> draw(std::size_t count, double low, double high, std::uint64_t seed);

// `which` is an indicator's name.
Workload many_series(std::string_view which, Scale scale);
Workload one_series(std::string_view which, Scale scale);
Workload cached_series(std::string_view which, Scale scale);

Workload black_scholes_load(std::string_view which, Scale scale);  // "double", "float"
Workload binomial_load(std::string_view which, Scale scale);
Workload american_load(std::string_view which, Scale scale);  // "fast", "standard"
Workload asian_load(std::string_view which, Scale scale);     // "plain", "antithetic"

Workload metrics_load(std::string_view which, Scale scale);     // "many", "recovery", "long"
Workload tail_load(std::string_view which, Scale scale);        // "many", "long"
Workload covariance_load(std::string_view which, Scale scale);  // "few", "many"

// "sma", "ema", "stops": moving averages that cross, traded long or, the last, both ways.
Workload backtest_load(std::string_view which, Scale scale);

}  // namespace sluice::market

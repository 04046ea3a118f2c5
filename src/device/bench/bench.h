// Measures this machine: memory and link bandwidth, tensor core rates and
// launch latency, each beside the datasheet's peak where there is one.
//
// Every figure is the median of repeats on random data, taken after a warm-up,
// and its result was checked against a reference in double precision before it
// was timed. A figure that could not be had is a row without a value whose
// detail says why; only a bad option throws.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "device/gpu.h"

namespace sluice::device {

// A reference implementation timed on the same work in the same run.
struct BenchPeer {
  std::string name;
  double value;  // in the row's unit
};

struct BenchRow {
  std::string name;             // "gemm_bf16"
  std::string title;            // "GEMM bf16"
  std::string unit;             // "B/s", "FLOP/s", "OP/s" or "s": value is in plain SI
  std::optional<double> value;  // absent when it could not be measured
  std::optional<double> peak;   // same unit; absent where nothing trustworthy says it
  std::string detail;           // sizes, alternatives, or why there is no value
  std::size_t samples = 0;
  double spread = 0;  // (90th - 10th percentile) / median, of the samples
  std::vector<BenchPeer> peers{};

  // Percentage of the peak, 0..100 and a little more; for rates only.
  std::optional<double> percent() const;
};

struct BenchOptions {
  bool quick = false;                       // smaller sizes, fewer repeats: a look, not a result
  std::vector<std::string> only{};          // name prefixes; empty for all
  std::vector<std::string> library_dirs{};  // looked in after the loader's own places

  bool wants(std::string_view name) const;
};

// Called before each measurement with its title and how many of the total are done.
using BenchProgress = std::function<void(std::string_view title, std::size_t done, std::size_t of)>;

// A GPU that CUDA can compute on, which may be fewer than the driver lists.
struct BenchGpu {
  std::string uuid;  // "GPU-…", as in Gpu
  std::string bus;   // "0000:04:00.0"
  std::string name;
  std::string cuda;  // "driver 13.0, runtime 13.0"
};

struct BenchGpus {
  std::vector<BenchGpu> gpus;
  std::string why_none;  // empty when there are some
};
BenchGpus bench_gpus();

// The names of all figures, in order, for --only and --help.
std::span<const std::string_view> bench_cpu_names() noexcept;
std::span<const std::string_view> bench_gpu_names() noexcept;

// `cpu` says how many cores to use and how large the caches are.
std::vector<BenchRow> bench_cpu(const Cpu& cpu, const BenchOptions& options,
                                const BenchProgress& progress);

// `uuid` as bench_gpus() gave it. Throws not_found for another, unavailable in a
// build without CUDA.
std::vector<BenchRow> bench_gpu(std::string_view uuid, const BenchOptions& options,
                                const BenchProgress& progress);

Json to_json(const BenchRow& row);

}  // namespace sluice::device

// The GEMM rate per precision. What the library proposes first is
// not always the fastest, so several of its algorithms are tried and the best is timed.
#include "device/bench/bench_gemm.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "device/bench/bench_cuda.h"
#include "device/bench/bench_kernels.h"
#include "device/cuda/device_buffer.h"

namespace sluice::device {

namespace {

constexpr int kMaxAlgorithms = 8;

// Outputs are overwritten with this first: a NaN in every float type, and a sum
// that no int8 GEMM here reaches.
unsigned char poison_of(Precision precision) { return precision == Precision::int8 ? 0x80 : 0xff; }

// Distinct positions spread over 0..size.
std::vector<std::int64_t> positions(std::int64_t size, std::uint64_t seed) {
  std::vector<std::int64_t> found{0, size - 1};
  for (std::uint64_t i = 0; i < 30; ++i)
    found.push_back(static_cast<std::int64_t>(mix(seed + i) % static_cast<std::uint64_t>(size)));
  return found;
}

std::vector<unsigned char> fetch(const void* from, std::size_t bytes) {
  std::vector<unsigned char> host(bytes);
  check(cudaMemcpy(host.data(), from, bytes, cudaMemcpyDeviceToHost));
  return host;
}

// Row `index` of A or column `index` of B, both contiguous.
std::vector<double> line_of(const void* matrix, std::int64_t index, std::int64_t length,
                            Precision precision) {
  const auto width = input_bytes(precision) * static_cast<std::size_t>(length);
  const auto raw = fetch(
      static_cast<const unsigned char*>(matrix) + width * static_cast<std::size_t>(index), width);
  std::vector<double> values(static_cast<std::size_t>(length));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = decode_input(raw.data() + i * input_bytes(precision), precision);
  return values;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

std::size_t room_for(std::int64_t n, Precision precision) {
  const auto elements = static_cast<std::size_t>(n) * static_cast<std::size_t>(n);
  return elements * (2 * input_bytes(precision) + output_bytes(precision));
}

GemmShape cube(std::int64_t n) { return {n, n, n}; }

double seconds_of(GemmProblem& problem, std::size_t algorithm, const BenchDevice& device,
                  std::size_t warm_ups, std::size_t repeats) {
  return quantile(timed_on_device(device.stream, warm_ups, repeats,
                                  [&] { problem.run(algorithm, device.stream); }),
                  0.5);
}

// The largest size, up to 8192, that fits and takes no longer than a tenth of a
// second: fp64 on a graphics card is a thousand times slower than fp8 on an H200.
std::int64_t choose_size(const CublasLt& library, const BenchDevice& device, Precision precision) {
  GemmProblem probe(library, precision, cube(1024), 1, device.stream);
  const double small = seconds_of(probe, 0, device, 1, 3);
  const std::int64_t max_n = device.options.quick ? 4096 : 8192;
  std::int64_t n = 1024;
  while (n < max_n && small * std::pow(2.0 * static_cast<double>(n) / 1024, 3) < 0.1 &&
         room_for(2 * n, precision) < device.free_bytes / 2)
    n *= 2;
  return n;
}

std::size_t fastest_algorithm(GemmProblem& problem, const BenchDevice& device) {
  std::size_t best = 0;
  double min_seconds = std::numeric_limits<double>::infinity();
  for (std::size_t algorithm = 0; algorithm < problem.algorithms(); ++algorithm) {
    const double seconds = seconds_of(problem, algorithm, device, 2, 5);
    if (seconds < min_seconds) min_seconds = seconds, best = algorithm;
  }
  return best;
}

}  // namespace

double gemm_tolerance(Precision precision) noexcept {
  switch (precision) {
    case Precision::fp64: return 1e-13;
    case Precision::fp32: return 2e-5;
    case Precision::tf32: return 1e-3;
    case Precision::bf16: return 5e-3;
    case Precision::fp16: return 1e-3;
    case Precision::fp8: return 2e-2;
    case Precision::int8: return 0;
  }
  return 0;
}

GemmProblem::GemmProblem(const CublasLt& library, Precision precision, GemmShape shape,
                         int max_algorithms, const Stream& stream)
    : precision_(precision),
      shape_(shape),
      gemm_(library, precision, shape, max_algorithms),
      a_(device_buffer(elements(shape.m, shape.k) * input_bytes(precision))),
      b_(device_buffer(elements(shape.n, shape.k) * input_bytes(precision))),
      d_(device_buffer(elements(shape.m, shape.n) * output_bytes(precision))) {
  draw(1, stream);
}

std::size_t GemmProblem::elements(std::int64_t rows, std::int64_t cols) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols);
}

void GemmProblem::draw(std::uint64_t seed, const Stream& stream) {
  fill_random(a_.get(), elements(shape_.m, shape_.k), precision_, mix(seed), stream);
  fill_random(b_.get(), elements(shape_.n, shape_.k), precision_, mix(~seed), stream);
}

void GemmProblem::run(std::size_t algorithm, const Stream& stream) const {
  gemm_.run(algorithm, a_.get(), b_.get(), d_.get(), stream);
}

double GemmProblem::error(std::size_t algorithm, std::uint64_t seed, const Stream& stream) {
  draw(seed, stream);
  const auto count = elements(shape_.m, shape_.n);
  const auto width = output_bytes(precision_);
  const auto counter = device_buffer(sizeof(unsigned long long));
  check(cudaMemsetAsync(counter.get(), 0, sizeof(unsigned long long), stream.get()));
  check(cudaMemsetAsync(d_.get(), poison_of(precision_), count * width, stream.get()));
  run(algorithm, stream);
  count_poisoned(d_.get(), count, width, poison_of(precision_),
                 static_cast<unsigned long long*>(counter.get()), stream);
  stream.wait();
  unsigned long long unwritten = 0;
  check(cudaMemcpy(&unwritten, counter.get(), sizeof unwritten, cudaMemcpyDeviceToHost));
  if (unwritten != 0) throw Error(Code::internal, fmt::format("{} elements unwritten", unwritten));
  return sampled_error(seed);
}

double GemmProblem::sampled_error(std::uint64_t seed) const {
  const auto width = output_bytes(precision_);
  std::vector<std::vector<double>> rows;
  const auto at_rows = positions(shape_.m, seed);
  for (const auto i : at_rows) rows.push_back(line_of(a_.get(), i, shape_.k, precision_));
  std::vector<double> got, want;
  for (const auto j : positions(shape_.n, ~seed)) {
    const auto column = line_of(b_.get(), j, shape_.k, precision_);
    const auto raw =
        fetch(static_cast<const unsigned char*>(d_.get()) + elements(j, shape_.m) * width,
              static_cast<std::size_t>(shape_.m) * width);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      got.push_back(
          decode_output(raw.data() + static_cast<std::size_t>(at_rows[r]) * width, precision_));
      want.push_back(dot(rows[r], column));
    }
  }
  return relative_error(got, want);
}

template <Precision precision>
BenchRow bench_gemm(const BenchDevice& device, BenchName what) {
  const char* unit = precision == Precision::int8 ? "OP/s" : "FLOP/s";
  const CublasLt library(device.stream.device(), device.options.library_dirs);
  const auto n = choose_size(library, device, precision);
  GemmProblem problem(library, precision, cube(n), device.options.quick ? 2 : kMaxAlgorithms,
                      device.stream);
  const auto algorithm = fastest_algorithm(problem, device);
  const double error = problem.error(algorithm, 42, device.stream);
  if (!(error <= gemm_tolerance(precision)))
    return missing_row(what, unit, fmt::format("wrong result: relative error {:.2g}", error));

  const auto m = static_cast<double>(n);
  auto row = timed_row(what, unit, 2 * m * m * m,
                       timed_on_device(device.stream, 3, device.options.quick ? 5 : 20,
                                       [&] { problem.run(algorithm, device.stream); }));
  if (device.card) row.peak = device.card->peaks.of(precision);
  row.detail = fmt::format("{0}x{0}x{0}, {1}, algorithm {2} of {3}, error {4:.1g}", n,
                           library.version(), algorithm + 1, problem.algorithms(), error);
  return row;
}

template BenchRow bench_gemm<Precision::fp64>(const BenchDevice&, BenchName);
template BenchRow bench_gemm<Precision::fp32>(const BenchDevice&, BenchName);
template BenchRow bench_gemm<Precision::tf32>(const BenchDevice&, BenchName);
template BenchRow bench_gemm<Precision::bf16>(const BenchDevice&, BenchName);
template BenchRow bench_gemm<Precision::fp16>(const BenchDevice&, BenchName);
template BenchRow bench_gemm<Precision::fp8>(const BenchDevice&, BenchName);
template BenchRow bench_gemm<Precision::int8>(const BenchDevice&, BenchName);

}  // namespace sluice::device

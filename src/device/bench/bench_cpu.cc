// The CPU's figures: memory bandwidth over all cores we may use, and the matrix
// GEMM through oneDNN, for comparison with the CPU backend.
//
// Stores bypass the cache. An ordinary store first reads the line it is about to
// overwrite, and that hidden third stream would make the figure too small.
#include <pthread.h>
#include <sched.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <fmt/core.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cmath>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "device/bench/bench_stats.h"
#include "device/library.h"

namespace sluice::device {

namespace {

constexpr std::array<BenchName, 4> kNames{{
    {"memory_copy", "memory copy"},
    {"memory_triad", "memory triad"},
    {"gemm_fp32", "GEMM fp32"},
    {"gemm_int8", "GEMM int8"},
}};
constexpr std::array<std::string_view, 4> kNameList{kNames[0].name, kNames[1].name, kNames[2].name,
                                                    kNames[3].name};

// ---- memory ----------------------------------------------------------------

struct FreeArray {
  void operator()(double* p) const { std::free(p); }
};
using Array = std::unique_ptr<double[], FreeArray>;

// Untouched: the thread that writes a page first decides which memory it is in.
Array make_array(std::size_t count) {
  auto* p = static_cast<double*>(std::aligned_alloc(4096, count * sizeof(double)));
  if (p == nullptr) throw Error(Code::exhausted, "no memory for the bandwidth arrays");
  return Array(p);
}

void store_past_cache(double* to, double first, double second) {
#if defined(__SSE2__)
  _mm_stream_pd(to, _mm_set_pd(second, first));
#else
  to[0] = first, to[1] = second;
#endif
}

struct Arrays {
  double* a;
  const double* b;
  const double* c;
};

// Both walk [from, to), which is even, two elements at a time.
void copy_part(Arrays x, std::size_t from, std::size_t to) {
  for (auto i = from; i < to; i += 2) store_past_cache(x.a + i, x.b[i], x.b[i + 1]);
}

void triad_part(Arrays x, std::size_t from, std::size_t to) {
  constexpr double kScale = 3;
  for (auto i = from; i < to; i += 2)
    store_past_cache(x.a + i, x.b[i] + kScale * x.c[i], x.b[i + 1] + kScale * x.c[i + 1]);
}

void pin_to(unsigned nth) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  for (unsigned cpu = 0, seen = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed) && seen++ == nth) {
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      pthread_setaffinity_np(pthread_self(), sizeof one, &one);
      return;
    }
}

using Part = void (*)(Arrays, std::size_t, std::size_t);

// One thread per core, each on its own part and its own memory; a repeat lasts
// from the moment all start until the last is done.
class Team {
 public:
  Team(unsigned threads, std::size_t count)
      : count_(count),
        a_(make_array(count)),
        b_(make_array(count)),
        c_(make_array(count)),
        threads_(threads) {}

  std::vector<double> run(Part part, std::size_t repeats) {
    std::vector<double> seconds(repeats);
    std::barrier together(static_cast<std::ptrdiff_t>(threads_));
    std::vector<std::jthread> workers;
    for (unsigned t = 0; t < threads_; ++t)
      workers.emplace_back([&, t] { work(t, part, together, seconds); });
    workers.clear();  // joins
    return seconds;
  }

  bool holds(double (*expected)(double b, double c)) const {
    for (std::size_t i = 0; i < count_; i += 4093)
      if (a_[i] != expected(b_[i], c_[i])) return false;
    return a_[count_ - 1] == expected(b_[count_ - 1], c_[count_ - 1]);
  }

 private:
  void work(unsigned t, Part part, std::barrier<>& together, std::vector<double>& seconds) {
    pin_to(t);
    const std::size_t from = count_ * t / threads_ / 2 * 2;
    const std::size_t to = count_ * (t + 1) / threads_ / 2 * 2;
    for (auto i = from; i < to; ++i) {
      a_[i] = -1;
      b_[i] = static_cast<double>(mix(i) >> 12);
      c_[i] = static_cast<double>(mix(~i) >> 40);
    }
    const Arrays arrays{a_.get(), b_.get(), c_.get()};
    for (std::size_t r = 0; r <= seconds.size(); ++r) {  // the first is the warm-up
      together.arrive_and_wait();
      const auto start = Steady::now();
      part(arrays, from, to);
      together.arrive_and_wait();
      if (t == 0 && r > 0) seconds[r - 1] = seconds_between(start, Steady::now());
    }
  }

  std::size_t count_;
  Array a_, b_, c_;
  unsigned threads_;
};

std::uint64_t last_level_cache(const Cpu& cpu) {
  std::uint64_t largest = 0;
  for (const auto& cache : cpu.caches) largest = std::max(largest, cache.bytes);
  return largest * std::max(cpu.sockets, 1u);
}

std::size_t array_bytes(const Cpu& cpu, bool quick) {
  const std::uint64_t needed =
      std::max<std::uint64_t>(last_level_cache(cpu) * (quick ? 2 : 4), std::uint64_t{64} << 20);
  std::uint64_t available = cpu.memory_available;
  if (cpu.memory_limit) available = std::min(available, *cpu.memory_limit);
  const std::uint64_t max_bytes = std::max<std::uint64_t>(available / 8, std::uint64_t{16} << 20);
  return std::min({needed, max_bytes, std::uint64_t{1} << 30}) / 4096 * 4096;
}

unsigned threads_of(const Cpu& cpu) {
  return std::max(1u, static_cast<unsigned>(std::lround(std::floor(cpu.usable_cores))));
}

BenchRow memory_row(const Cpu& cpu, bool quick, bool triad) {
  const auto& what = kNames[triad ? 1 : 0];
  const std::size_t bytes = array_bytes(cpu, quick);
  Team team(threads_of(cpu), bytes / sizeof(double));
  const auto seconds = team.run(triad ? triad_part : copy_part, quick ? 5 : 15);
  const bool right = triad ? team.holds([](double b, double c) { return b + 3 * c; })
                           : team.holds([](double b, double) { return b; });
  if (!right) return missing_row(what, "B/s", "wrong result: the arrays differ from the reference");
  const double moved = static_cast<double>(bytes) * (triad ? 3 : 2);
  auto row = timed_row(what, "B/s", moved, seconds);
  row.detail = fmt::format("{} threads, arrays of {}, streaming stores, bytes read + written",
                           threads_of(cpu), human_bytes(bytes));
  return row;
}

// ---- GEMM ---------------------------------------------------------------

class OneDnn {
 public:
  OneDnn(std::span<const std::string> dirs, unsigned threads)
      : library_(std::array<std::string_view, 3>{"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so"},
                 dirs),
        sgemm_(library_.find<decltype(dnnl_sgemm)>("dnnl_sgemm")),
        igemm_(library_.find<decltype(dnnl_gemm_u8s8s32)>("dnnl_gemm_u8s8s32")) {
    const auto& v = *library_.find<decltype(dnnl_version)>("dnnl_version")();
    version_ = fmt::format("oneDNN {}.{}.{}", v.major, v.minor, v.patch);
    try {  // its OpenMP would otherwise ignore the cgroup's quota
      library_.find<void(int)>("omp_set_num_threads")(static_cast<int>(threads));
    } catch (const Error&) {
      version_ += ", its own threads";
    }
  }

  const std::string& version() const { return version_; }

  bool gemm(std::int64_t n, const float* a, const float* b, float* c) const {
    return sgemm_('N', 'N', n, n, n, 1, a, n, b, n, 0, c, n) == dnnl_success;
  }
  bool gemm(std::int64_t n, const std::uint8_t* a, const std::int8_t* b, std::int32_t* c) const {
    const std::int32_t zero = 0;
    return igemm_('N', 'N', 'F', n, n, n, 1, a, n, 0, b, n, 0, 0, c, n, &zero) == dnnl_success;
  }

 private:
  Library library_;
  decltype(dnnl_sgemm)* sgemm_;
  decltype(dnnl_gemm_u8s8s32)* igemm_;
  std::string version_;
};

struct Fp32 {
  using A = float;
  using B = float;
  using C = float;
  static float value(std::uint64_t bits) {
    return static_cast<float>(static_cast<std::int32_t>(bits)) * 0x1p-31f;
  }
  static constexpr double kTolerance = 1e-5;
};

// Unsigned by signed, the form the instructions take; 7 bits each, so that no
// instruction set saturates on the way and the result is exact.
struct Int8 {
  using A = std::uint8_t;
  using B = std::int8_t;
  using C = std::int32_t;
  static std::uint8_t value(std::uint64_t bits) { return static_cast<std::uint8_t>(bits & 0x7f); }
  static constexpr double kTolerance = 0;
};

template <class Type>
class CpuGemm {
 public:
  explicit CpuGemm(std::int64_t n) : n_(n), a_(size()), b_(size()), c_(size()) {}

  void draw(std::uint64_t seed) {
    for (std::size_t i = 0; i < size(); ++i) {
      const auto bits = mix(seed + i);
      a_[i] = Type::value(bits);
      b_[i] = static_cast<typename Type::B>(Type::value(bits >> 32));
      c_[i] = static_cast<typename Type::C>(-7);
    }
  }

  void run(const OneDnn& library) {
    if (!library.gemm(n_, a_.data(), b_.data(), c_.data()))
      throw Error(Code::unavailable, "oneDNN refused the GEMM");
  }

  // The error of 256 random elements against sums in double.
  double error(std::uint64_t seed) const {
    const auto n = static_cast<std::size_t>(n_);
    std::vector<double> got, want;
    for (std::size_t s = 0; s < 256; ++s) {
      const std::size_t i = mix(seed + s) % n, j = mix(seed - s) % n;
      double sum = 0;
      for (std::size_t k = 0; k < n; ++k)
        sum += static_cast<double>(a_[i * n + k]) * static_cast<double>(b_[k * n + j]);
      want.push_back(sum);
      got.push_back(static_cast<double>(c_[i * n + j]));
    }
    return relative_error(got, want);
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(n_ * n_); }

  std::int64_t n_;
  std::vector<typename Type::A> a_;
  std::vector<typename Type::B> b_;
  std::vector<typename Type::C> c_;
};

// The largest of a few sizes that one repeat is done with in good time.
template <class Type>
std::int64_t choose_size(const OneDnn& library, bool quick) {
  CpuGemm<Type> probe(512);
  probe.draw(1);
  probe.run(library);
  const double seconds = timed([&] { probe.run(library); });
  std::int64_t n = 1024;
  while (n < 4096 &&
         seconds * std::pow(2.0 * static_cast<double>(n) / 512, 3) < (quick ? 0.1 : 0.4))
    n *= 2;
  return n;
}

template <class Type>
BenchRow gemm_row(BenchName what, const char* unit, const Cpu& cpu, const BenchOptions& options) {
  const OneDnn library(options.library_dirs, threads_of(cpu));
  const auto n = choose_size<Type>(library, options.quick);
  CpuGemm<Type> gemm(n);
  std::vector<double> seconds;
  double worst = 0;
  for (std::uint64_t repeat = 0; repeat < (options.quick ? 3u : 7u); ++repeat) {
    gemm.draw(repeat << 32);
    seconds.push_back(timed([&] { gemm.run(library); }));
    worst = std::max(worst, gemm.error(repeat));
  }
  if (worst > Type::kTolerance)
    return missing_row(what, unit, fmt::format("wrong result: relative error {:.2g}", worst));
  const auto m = static_cast<double>(n);
  auto row = timed_row(what, unit, 2 * m * m * m, seconds);
  row.detail = fmt::format("{0}x{0}x{0}, {1} threads, {2}, error {3:.1g}", n, threads_of(cpu),
                           library.version(), worst);
  return row;
}

BenchRow row_of(std::size_t which, const Cpu& cpu, const BenchOptions& options) {
  const auto what = kNames[which];
  const char* unit = which < 2 ? "B/s" : which == 2 ? "FLOP/s" : "OP/s";
  try {
    if (which < 2) return memory_row(cpu, options.quick, which == 1);
    if (which == 2) return gemm_row<Fp32>(what, unit, cpu, options);
    return gemm_row<Int8>(what, unit, cpu, options);
  } catch (const Error& e) {
    return missing_row(what, unit, e.what());
  }
}

}  // namespace

std::span<const std::string_view> bench_cpu_names() noexcept { return kNameList; }

std::vector<BenchRow> bench_cpu(const Cpu& cpu, const BenchOptions& options,
                                const BenchProgress& progress) {
  std::vector<std::size_t> selected;
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (options.wants(kNames[i].name)) selected.push_back(i);
  std::vector<BenchRow> rows;
  for (const auto which : selected) {
    progress(kNames[which].title, rows.size(), selected.size());
    rows.push_back(row_of(which, cpu, options));
  }
  return rows;
}

}  // namespace sluice::device

#include "cli/bench/tokenizer_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <thread>

#include "base/clock.h"
#include "base/units.h"

namespace sluice::cli {
namespace {

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Passes {
  std::vector<double> rates;  // bytes a second, ascending, without the first pass
  double first = 0;
  std::size_t ids = 0;

  double at(double share) const {
    return rates[static_cast<std::size_t>(share * static_cast<double>(rates.size() - 1) + 0.5)];
  }
};

Passes measure(const text::Tokenizer& tokenizer, const std::vector<std::string_view>& texts,
               double bytes, std::size_t threads, int repeats) {
  Passes passes;
  for (int i = 0; i <= repeats; ++i) {
    const auto from = Steady::now();
    const double cpu = cpu_seconds();
    passes.ids = tokenizer.encode_batch(texts, {.threads = threads}).ids.size();
    const double seconds =
        threads == 1 ? cpu_seconds() - cpu : seconds_between(from, Steady::now());
    (i == 0 ? passes.first : passes.rates.emplace_back()) = bytes / std::max(seconds, 1e-9);
  }
  std::ranges::sort(passes.rates);
  return passes;
}

device::BenchRow row_of(const Passes& passes, double bytes, std::size_t threads) {
  device::BenchRow row{
      .name = threads == 1 ? "tokenize_1" : "tokenize_all",
      .title = threads == 1 ? "tokenize, 1 thread" : fmt::format("tokenize, {} threads", threads),
      .unit = "B/s",
      .value = passes.at(0.5),
      .peak = std::nullopt,
      .detail = {}};
  row.samples = passes.rates.size();
  row.spread = (passes.at(0.9) - passes.at(0.1)) / passes.at(0.5);
  row.detail = fmt::format("{:.1f} MB of text, {} ids; first pass {}{}", bytes / 1e6, passes.ids,
                           human_rate(passes.first, "B/s"), threads == 1 ? "; by CPU time" : "");
  return row;
}

}  // namespace

std::vector<device::BenchRow> bench_tokenizer_rows(const text::Tokenizer& tokenizer,
                                                   const std::vector<std::string>& texts,
                                                   std::size_t threads, bool quick,
                                                   const device::BenchProgress& progress) {
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  double bytes = 0;
  for (const auto view : views) bytes += static_cast<double>(view.size());
  std::vector<std::size_t> counts{1};
  if (threads > 1) counts.push_back(threads);
  std::vector<device::BenchRow> rows;
  for (const std::size_t count : counts) {
    progress(fmt::format("{} threads", count), rows.size(), counts.size());
    rows.push_back(row_of(measure(tokenizer, views, bytes, count, quick ? 3 : 15), bytes, count));
  }
  return rows;
}

}  // namespace sluice::cli

#include "serve/compute_exposition.h"

#include <fmt/format.h>

#include <iterator>

#include "compute/fallback/fallback_counts.h"
#include "serve/exposition_lines.h"

namespace sluice::serve {

std::string compute_exposition(const MarketService::Stats& f, const MemoryBudget& memory) {
  std::string out;
  const auto to = std::back_inserter(out);
  header(out, "sluice_compute_calls_total", "Calculations, by where they ran", "counter");
  fmt::format_to(to, "sluice_compute_calls_total{{device=\"cpu\"}} {}\n", f.compute.cpu_calls);
  fmt::format_to(to, "sluice_compute_calls_total{{device=\"gpu\"}} {}\n", f.compute.gpu_calls);
  counter(out, "sluice_compute_faults_total", "Calls in which the GPU failed", f.compute.faults);
  counter(out, "sluice_compute_exhausted_total", "Calls that GPU memory was too small for",
          f.compute.exhausted);
  header(out, "sluice_gpu_fallbacks_total", "Calls for the GPU that ran on the CPU", "counter");
  const auto fallbacks = compute::process_fallbacks();
  for (std::size_t i = 0; i < compute::kFallbacks; ++i)
    fmt::format_to(to, "sluice_gpu_fallbacks_total{{reason=\"{}\"}} {}\n",
                   to_string(static_cast<compute::Fallback>(i)), fallbacks[i]);
  header(out, "sluice_market_requests_waiting", "Market requests that wait or are calculated",
         "gauge");
  fmt::format_to(to, "sluice_market_requests_waiting {}\n", f.waiting);
  header(out, "sluice_request_memory_limit_bytes", "Memory that requests may hold", "gauge");
  fmt::format_to(to, "sluice_request_memory_limit_bytes {}\n", memory.limit());
  header(out, "sluice_request_memory_used_bytes",
         "Memory that bodies, calculations and answers hold now", "gauge");
  fmt::format_to(to, "sluice_request_memory_used_bytes {}\n", memory.used());
  counter(out, "sluice_request_memory_refused_total",
          "Times a request was refused memory that was not left", memory.refused());
  return out;
}

}  // namespace sluice::serve

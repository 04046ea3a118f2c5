#include "serve/lease_exposition.h"

#include <fmt/format.h>

#include <iterator>

#include "serve/exposition_lines.h"

namespace sluice::serve {

std::string lease_exposition(const broker::Broker::Stats& f) {
  std::string out;
  const auto to = std::back_inserter(out);
  header(out, "sluice_leases", "Leases now, by state", "gauge");
  fmt::format_to(to, "sluice_leases{{state=\"held\"}} {}\n", f.held);
  fmt::format_to(to, "sluice_leases{{state=\"waiting\"}} {}\n", f.waiting);
  fmt::format_to(to, "sluice_leases{{state=\"on_cpu\"}} {}\n", f.on_cpu);
  header(out, "sluice_leases_held", "Leases held now, by enforcement tier", "gauge");
  for (std::size_t i = 0; i < f.held_by_tier.size(); ++i)
    fmt::format_to(to, "sluice_leases_held{{enforcement=\"{}\"}} {}\n",
                   to_string(static_cast<broker::Enforcement>(i)), f.held_by_tier[i]);
  counter(out, "sluice_leases_granted_total", "Leases granted", f.granted);
  counter(out, "sluice_leases_refused_total", "Requests refused", f.refused);
  counter(out, "sluice_leases_sent_to_cpu_total", "Requests sent to the CPU", f.sent_to_cpu);
  counter(out, "sluice_leases_expired_total", "Leases whose holder was not heard of", f.expired);
  counter(out, "sluice_lease_holders_died_total", "Leases whose process ended", f.holders_died);
  counter(out, "sluice_lease_yields_requested_total", "Yields requested of holders",
          f.yields_requested);
  counter(out, "sluice_lease_yields_done_total", "Requested yields whose memory was seen free",
          f.yields_done);
  counter(out, "sluice_lease_yield_bytes_total", "Bytes that yields freed", f.yield_bytes);
  header(out, "sluice_lease_yield_seconds_total",
         "Seconds from yield requests until their memory was free", "counter");
  fmt::format_to(to, "sluice_lease_yield_seconds_total {}\n", f.yield_s);
  counter(out, "sluice_lease_over_uses_total", "Times a holder used more than its lease",
          f.over_uses);
  counter(out, "sluice_lease_store_failures_total", "Changes that could not be stored",
          f.stores_failed);
  header(out, "sluice_lease_grant_median_seconds",
         "From a request to its stored answer, of the last 4096: the median", "gauge");
  fmt::format_to(to, "sluice_lease_grant_median_seconds {}\n", f.grant_p50_s);
  header(out, "sluice_lease_grant_p99_seconds", "The same: the 99th percentile", "gauge");
  fmt::format_to(to, "sluice_lease_grant_p99_seconds {}\n", f.grant_p99_s);
  return out;
}

}  // namespace sluice::serve

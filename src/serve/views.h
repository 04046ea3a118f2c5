// The JSON of the health routes, as pure functions of one snapshot. Field names are
// those of docs/http.md; a value that is not known is absent.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/json.h"
#include "serve/traffic.h"
#include "watch/snapshot.h"

namespace sluice::serve {

struct About {
  std::string version;
  std::string host_name;
  Instant started{};
};

// A snapshot older than this means that nobody watches any more: not ready.
inline constexpr double kStaleAfter = 5;

bool is_ready(const watch::Snapshot& snapshot, Instant now) noexcept;

Json health_view(const watch::Snapshot& snapshot, const About& about, Instant now);
Json gpu_health_view(const watch::Snapshot& snapshot, Instant now);
Json gpu_memory_view(const watch::Snapshot& snapshot, Instant now);
Json performance_view(const watch::Snapshot& snapshot, const Traffic::Totals& traffic, Instant now);
Json devices_view(const watch::Snapshot& snapshot);

// Three decimal places, six below 1: more is noise in anything that is measured here.
double rounded(double value) noexcept;
void round_numbers(Json& json);  // every fraction in it

// Serializes to one line, with rounded numbers. Bytes that are not UTF-8 (a process may be named
// so) are replaced.
std::string to_text(Json json);

}  // namespace sluice::serve

// The numbers of `sluice top`: each as text, with its age.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/top/top_rows.h"

namespace sluice::cli {

Ink ink_of(device::HealthState state);

// The value unless it is older than it should be by far.
std::optional<double> fresh(const device::Readings& readings, device::Metric metric,
                            const Scene& scene);

// The value as `format` writes it, with "~" before one that is too old, "-" for none.
std::string shown_value(const device::Readings& readings, device::Metric metric, const Scene& scene,
                        const char* format);

// A bar of value / full, green to red; empty cells when there is no value.
std::string gauge(std::optional<double> value, double full, int width, Pen pen);

std::string percent(std::optional<double> value);  // " 75 %", "  - %"
std::string of_gib(double used, double total);     // "100.2/139.8 GiB"
std::string age_text(Instant since, Instant now);  // "12 s", "2 min 5 s"
std::vector<std::optional<double>> past_of(const Scene& scene, const std::string& device);

}  // namespace sluice::cli

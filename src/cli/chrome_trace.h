// A run as Chrome's tracing page and Perfetto read it: one lane for each place that steps ran
// on.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "engine/program.h"

namespace sluice::cli {

// `lane`: what the steps ran on, "CPU, 2 threads". `process`: the model's name.
std::string chrome_trace(std::string_view process, std::string_view lane,
                         std::span<const engine::StepTime> steps);

}  // namespace sluice::cli

// A run as Chrome's tracing page and Perfetto read it: one track for each place that steps ran
// on.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "engine/exec/program.h"

namespace sluice::cli {

// `process`: the model's name. `cpu`: what its steps there ran on, "CPU, 2 threads".
std::string chrome_trace(std::string_view process, std::string_view cpu,
                         std::span<const engine::StepTime> steps);

}  // namespace sluice::cli

#include "cli/market/compute_flags.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <ostream>

#include "base/error.h"

namespace sluice::cli {

void add_options(CLI::App& app, ComputeFlags& flags) {
  app.add_option("--device", flags.device, "auto (default), cpu or gpu")
      ->check([](const std::string& given) {
        return compute::device_preference_from(given) ? std::string()
                                                      : "'" + given + "' is not auto, cpu or gpu";
      });
  app.add_flag("--explain", flags.explain, "say on stderr where it ran, and why there");
  add_options(app, flags.settings);
}

std::unique_ptr<compute::Compute> make_compute(const ComputeFlags& flags,
                                               const Environment& environment) {
  const ProgramSettings settings = load_settings(flags.settings, environment);
  if (!settings.gpu.enabled && flags.device == "gpu")
    throw Error(Code::unavailable, "--device gpu, but gpu.enabled is false (GPU_ENABLED)");
  return compute::make_compute(settings.gpu.enabled ? flags.device : "cpu",
                               std::filesystem::path(settings.cache_dir) / "costs.json",
                               settings.memory);
}

compute::DevicePreference device_preference(const ComputeFlags& flags) {
  return *compute::device_preference_from(flags.device);
}

void explain(const ComputeFlags& flags, const compute::Outcome& outcome, std::ostream& err) {
  if (!flags.explain) return;
  const bool gpu = outcome.items_on_gpu > 0;
  err << fmt::format("ran on the {} in {:.3g} ms: {}{}\n", gpu ? "GPU" : "CPU",
                     outcome.seconds * 1e3, outcome.choice.reason,
                     outcome.fallback.empty() ? "" : "; then on the CPU: " + outcome.fallback);
}

}  // namespace sluice::cli

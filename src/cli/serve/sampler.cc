// Started by sluice itself, never by people: see device/sampler/sampler.h.
#include "device/sampler/sampler.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "cli/common/commands.h"

namespace sluice::cli {

int sampler(Args args, Io& io) {
  CLI::App app("Queries the GPU drivers on behalf of another sluice process", "sluice sampler");
  device::SamplerOptions options;
  std::int64_t epoch_ns = 0;
  app.add_option("--fd", options.fd, "socket to that process")->required();
  app.add_option("--demo", options.demo, "scenario to play instead of real hardware");
  auto* epoch = app.add_option("--epoch", epoch_ns, "when the scenario began (monotonic ns)");
  if (!parse(app, args, io, "  sluice sampler --fd 3")) return 0;
  if (epoch->count() > 0) options.demo_epoch_ns = epoch_ns;
  return device::run_sampler(options);
}

}  // namespace sluice::cli

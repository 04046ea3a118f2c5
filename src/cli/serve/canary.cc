// Started by sluice itself before a GPU gets work again; of use to people too.
#include "device/health/canary.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/json.h"
#include "cli/common/commands.h"

namespace sluice::cli {

int canary(Args args, Io& io) {
  CLI::App app("Checks that a GPU computes correctly", "sluice canary");
  device::CanaryOptions options;
  std::int64_t epoch_ns = 0;
  int fd = -1;
  app.add_option("--uuid", options.uuid, "the GPU")->required();
  app.add_option("--demo", options.demo, "scenario to play instead of real hardware");
  auto* epoch = app.add_option("--epoch", epoch_ns, "when the scenario began (monotonic ns)");
  app.add_option("--fd", fd, "socket for the answer, instead of standard output");
  if (!parse(app, args, io, "  sluice canary --uuid GPU-6e2c…")) return 0;
  if (epoch->count() > 0) options.demo_epoch_ns = epoch_ns;
  if (fd >= 0) prctl(PR_SET_PDEATHSIG, SIGKILL);

  // CUDA reads it once, when it starts: now is the time.
  setenv("CUDA_VISIBLE_DEVICES", options.uuid.c_str(), 1);
  const auto report = device::run_canary(options);
  const auto line =
      Json{{"uuid", options.uuid}, {"passed", report.passed}, {"note", report.note}}.dump(
          -1, ' ', false, Json::error_handler_t::replace) +
      "\n";
  if (fd < 0)
    io.out << line;
  else if (write(fd, line.data(), line.size()) < 0)
    return 1;
  return report.passed ? 0 : 1;
}

}  // namespace sluice::cli

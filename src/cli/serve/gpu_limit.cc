// sluice gpu-limit: sets the memory limit of a control group with NVIDIA's driver. Only sluice
// itself starts it, as a separate process, because the driver may hang.
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <csignal>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.h"
#include "base/json.h"
#include "cli/common/commands.h"
#include "device/demo/demo.h"
#include "device/host/memory_limit.h"

namespace sluice::cli {

namespace {

struct GpuLimitFlags {
  std::vector<std::string> uuids;
  std::string group, demo;
  std::uint64_t bytes = 0;
  int fd = -1;
};

// Empty when every GPU then refuses past the limit.
std::string limit_all(const GpuLimitFlags& flags) try {
  const auto nvml = flags.demo.empty() ? device::Nvml::open() : device::open_demo(flags.demo);
  for (const auto& uuid : flags.uuids)
    if (auto wrong = device::limit_memory(*nvml, uuid, flags.group, flags.bytes); !wrong.empty())
      return wrong;
  return "";
} catch (const Error& e) {
  return std::string(e.reason());
}

}  // namespace

int gpu_limit(Args args, Io& io) {
  CLI::App app("Limits the GPU memory of a control group", "sluice gpu-limit");
  GpuLimitFlags flags;
  app.add_option("--uuid", flags.uuids, "the GPUs")->required();
  app.add_option("--group", flags.group, "folder of the control group")->required();
  app.add_option("--bytes", flags.bytes, "at most, on each GPU")->required();
  app.add_option("--demo", flags.demo, "scenario to play instead of real hardware");
  app.add_option("--fd", flags.fd, "socket for the answer, instead of standard output");
  if (!parse(app, args, io,
             "  sluice gpu-limit --uuid GPU-6e2c… --group /sys/fs/cgroup/x --bytes 1"))
    return 0;
  if (flags.fd >= 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto wrong = limit_all(flags);
  const auto line = Json{{"stands", wrong.empty()}, {"why_not", wrong}}.dump(
                        -1, ' ', false, Json::error_handler_t::replace) +
                    "\n";
  if (flags.fd < 0)
    io.out << line;
  else if (write(flags.fd, line.data(), line.size()) < 0)
    return 1;
  return wrong.empty() ? 0 : 1;
}

}  // namespace sluice::cli

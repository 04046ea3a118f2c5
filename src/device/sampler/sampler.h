// The process that queries the drivers, so that no other process has to. A call that
// hangs stops one GPU's thread here and nothing else; a call that crashes ends
// this process, and the program that started it starts another.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace sluice::device {

struct SamplerOptions {
  int fd = -1;       // one end of a socket pair; sampler_protocol.h is spoken on it
  std::string demo;  // scenario; empty for real hardware
  std::optional<std::int64_t> demo_epoch_ns;
};

// Runs until the other end closes, SIGTERM comes or there is nothing to watch;
// then gives running driver calls a moment to return. Does not come back when one
// of them does not: the process ends. Blocks SIGTERM for the whole process.
int run_sampler(const SamplerOptions& options);

}  // namespace sluice::device

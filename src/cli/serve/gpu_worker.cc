// Started by sluice itself, never by people: see compute/worker/worker.h.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "cli/common/commands.h"
#include "compute/worker/worker.h"
#include "market/operations.h"

namespace sluice::cli {

int gpu_worker(Args args, Io& io) {
  CLI::App app("Calculates on a GPU on behalf of another sluice process", "sluice gpu-worker");
  compute::CudaOptions options;
  std::string pools;
  app.add_option("--device", options.device, "CUDA's number of the GPU");
  app.add_option("--pools", pools, "settings of its memory pools, as JSON")->type_name("JSON");
  if (!parse(app, args, io, "  sluice gpu-worker --device 0")) return 0;
  if (!pools.empty()) options.pools = memory::memory_config_from(pools);
  return compute::serve_calls([&] { return compute::make_cuda_accelerator(options); },
                              market::operations());
}

}  // namespace sluice::cli

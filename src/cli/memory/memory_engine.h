// Records the allocations of our engine while it runs a model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "memory/trace/trace.h"

namespace sluice::cli {

struct EngineRuns {
  std::vector<std::string> shapes{};     // as engine::Sizes takes them
  std::vector<std::int64_t> batches{1};  // each in turn
  int rounds = 3;                        // of them
  bool node_by_node = false;             // every value by itself; else as compiled
};

// An .onnx file, a plan, or a folder with config.json.
bool is_model(const std::string& path);

// Reads the model, runs it on random inputs and closes it again. Recorded is what the engine
// makes: weights in the order that kernels read, arenas, values, results; not the model's own
// weights, and not the inputs.
memory::Trace record_engine(const std::string& model, const EngineRuns& runs,
                            memory::TraceHeader header);

}  // namespace sluice::cli

// Chooses and serializes the cuDNN engine of an operation graph. An engine is stored by its index
// and knob values, since the order of the heuristic's results varies with the machine's load, and
// as cuDNN's own serialized execution plan, which loads without compiling again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/exec/cuda/cudnn/cudnn_library.h"

namespace sluice::engine::cuda::cudnn {

// The engine configurations that a heuristic returns, best first.
std::vector<BackendDescriptor> engine_configs(const Library& library,
                                              const BackendDescriptor& graph,
                                              cudnnBackendHeurMode_t mode);

// Whether an engine is deterministic and, if `full_f32`, does not reduce the precision of f32.
bool is_acceptable(const Library& library, const BackendDescriptor& config, bool full_f32);

// A finalized execution plan.
struct Engine {
  std::optional<BackendDescriptor> config;  // none if it was deserialized
  BackendDescriptor plan;
  std::size_t scratch;
};

// None if this engine does not support the graph or needs more workspace than `max_workspace`.
std::optional<Engine> make_engine(const Library& library, BackendDescriptor config,
                                  std::size_t max_workspace);

// "28 4=2 7=0": the engine's index and its knobs; on the next line the execution plan as JSON, if
// cuDNN can serialize and deserialize it.
std::string serialize(const Library& library, const Engine& engine, std::size_t max_workspace);

// `graph` returns the operation graph; it is called only if the JSON cannot be deserialized. None
// if the text does not work with this library.
using GraphMaker = std::function<const BackendDescriptor&()>;
std::optional<Engine> read_engine(const Library& library, std::string_view text,
                                  const GraphMaker& graph, std::size_t max_workspace);

}  // namespace sluice::engine::cuda::cudnn

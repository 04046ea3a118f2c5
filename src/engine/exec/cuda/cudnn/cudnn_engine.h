// Which engine of cuDNN runs a graph of operations, and how that is written down. An engine is
// kept by its number and the settings of its knobs, since its place among the proposals changes
// with what the machine is doing; and as cuDNN writes a plan itself, which is read back without
// compiling it again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/exec/cuda/cudnn/cudnn_library.h"

namespace sluice::engine::cuda::dnn {

// Configurations of engines that a heuristic proposes, the best first.
std::vector<Thing> proposals(const Library& library, const Thing& graph, HeuristicsMode mode);

// Whether an engine computes as we promise: the same each time, and f32 in full unless told.
bool keeps_promises(const Library& library, const Thing& config, bool full_f32);

// An engine that is ready to run.
struct Engine {
  std::optional<Thing> config;  // none where it was read back
  Thing plan;
  std::size_t scratch;
};

// None where this engine cannot, or asks for more scratch than `most`.
std::optional<Engine> make_engine(const Library& library, Thing config, std::size_t most);

// "28 4=2 7=0": the engine's number and its knobs; and on the next line, where cuDNN can write it
// and read it back, the plan.
std::string written(const Library& library, const Engine& engine, std::size_t most);

// `graph` gives the operations, and is asked for only where the plan itself cannot be read. None
// where what is written does not work here.
using GraphMaker = std::function<const Thing&()>;
std::optional<Engine> read_engine(const Library& library, std::string_view text,
                                  const GraphMaker& graph, std::size_t most);

}  // namespace sluice::engine::cuda::dnn

// Chooses which nodes of a graph compute in f16 or bf16, by the loss on sample inputs.
#pragma once

#include <string>
#include <vector>

#include "engine/precision/emulation.h"
#include "engine/precision/precision_report.h"

namespace sluice::engine {

// Chooses the narrow nodes such that the emulated outputs lose no more than `max_loss`, less some
// headroom for other inputs and for differences of a GPU. Nodes that overflow, and those that lose
// most, stay in f32. A graph that would lose much more as a whole amplifies errors, so less loss is
// allowed for it. Nodes that are not decided after a few seconds stay in f32 too.
struct PrecisionChoice {
  std::vector<bool> narrow;
  double loss = 0;
  std::vector<WideNode> wide{};
};
PrecisionChoice choose_precision(Emulation& run, double max_loss);
// The same for another sample: only nodes that were narrow before may be narrow.
PrecisionChoice choose_precision(Emulation& run, double max_loss, const PrecisionChoice& before);

// "Conv node 'stem' (0.02), ...": the nodes with the largest own loss.
std::string worst_nodes(Emulation& run, const std::vector<bool>& narrow);

}  // namespace sluice::engine

// Which nodes of a graph compute in f16 or bf16, by what that loses on sample inputs.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/precision/emulation.h"

namespace sluice::engine {

// A node that stays in f32.
struct WideNode {
  std::string value;  // the name of its first output
  std::string node;   // "Conv node 'stem'"
  std::string why;    // "makes 1.2e+06, more than f16 holds"
};

// How a graph came to its precision.
struct PrecisionReport {
  std::string types{};   // of the inputs it is for: "f32[1, 3, 224, 224]"
  std::string wanted{};  // "fp16"
  // The largest difference of an output from f32, of that output's largest number; of the narrow
  // graph where it was refused too. None: it was not measured.
  std::optional<double> loss{};
  std::string measured{};        // "gpu", "emulated" on the CPU, "another shape", or nothing
  int narrow = 0;                // nodes that compute in it
  std::vector<WideNode> wide{};  // that might have
  std::string refused{};         // why f32 is used instead; names the nodes that lose most
  double asked = 0;              // the loss that was to be allowed
  double limit = 0;              // and that was: more in models of small numbers
  double seconds = 0;            // that measuring took

  // Whether a graph that this was found for may be used where so much is allowed.
  bool good_for(double max_loss) const {
    constexpr double kRounding = 1e-6;  // a plan has floats
    if (!refused.empty()) return max_loss <= (1 + kRounding) * asked;
    return loss && (max_loss >= (1 - kRounding) * asked || *loss <= max_loss);
  }
};

// The nodes that may be narrow such that the emulated outputs lose no more than `max_loss`, less
// some room for inputs that are not the samples and for what a GPU does otherwise. Those that
// overflow, and of the others those that lose most, stay in f32. A graph that would lose much
// more as a whole has to be better than that, since it tells that small errors grow in it. After
// a few seconds what is not settled stays in f32 too.
struct PrecisionChoice {
  std::vector<bool> narrow;
  double loss = 0;
  std::vector<WideNode> wide{};
};
PrecisionChoice choose_precision(Emulation& run, double max_loss);
// The same on another sample, with no more narrow nodes than before.
PrecisionChoice choose_precision(Emulation& run, double max_loss, const PrecisionChoice& before);

// "Conv node 'stem' (0.02), ...": the nodes that lose most by themselves.
std::string worst_nodes(Emulation& run, const std::vector<bool>& narrow);

}  // namespace sluice::engine

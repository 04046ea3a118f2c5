// The precision that the nodes of a graph were given, and what it costs.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace sluice::engine {

// A node that stays in f32.
struct WideNode {
  std::string value;  // the name of its first output
  std::string node;   // "Conv node 'stem'"
  std::string why;    // "makes 1.2e+06, more than f16 holds"
};

// The precision of a graph and how it was chosen.
struct PrecisionReport {
  std::string types{};      // of the inputs: "f32[1, 3, 224, 224]"
  std::string requested{};  // "fp16"
  // The largest difference of an output from f32, relative to that output's largest value; also set
  // if the narrow graph was refused. None: it was not measured.
  std::optional<double> loss{};
  std::string measured{};        // "gpu", "emulated" on the CPU, "another shape", or empty
  int narrow = 0;                // number of nodes in the requested precision
  std::vector<WideNode> wide{};  // candidates that stay in f32
  std::string refused{};         // why f32 is used instead; names the nodes that lose most
  double requested_loss = 0;     // the allowed loss that was requested
  double allowed_loss = 0;       // the one that was applied: larger for quantized models
  double seconds = 0;            // that measuring took

  // Whether the graph of this report may be used with this allowed loss.
  bool good_for(double max_loss) const {
    constexpr double kRounding = 1e-6;  // plans store floats
    if (!refused.empty()) return max_loss <= (1 + kRounding) * requested_loss;
    return loss && (max_loss >= (1 - kRounding) * requested_loss || *loss <= max_loss);
  }
};

}  // namespace sluice::engine

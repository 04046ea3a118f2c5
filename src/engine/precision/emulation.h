// Emulates f16 and bf16 nodes of a graph on the CPU: such a node reads rounded inputs, accumulates
// in f32 and rounds its outputs. A GPU does the same, except for the order of its sums.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "engine/exec/cpu/backend.h"

namespace sluice::engine {

// The loss of an output: the largest difference relative to the largest expected value. An
// unexpected NaN or infinity is an infinite loss.
double loss_of(const Tensor& expected, const Tensor& actual);
// The largest loss of the floating-point outputs; others are ignored.
double loss_of(std::span<const Tensor> expected, std::span<const Tensor> actual);

// The range of a node's outputs.
struct NodeRange {
  float max_magnitude = 0;  // in f32
  // In the narrow type an output exceeded a quarter of the largest finite value, and in f32 it was
  // finite.
  bool overflows = false;
  bool infinite = false;  // an output was infinite or NaN
};

// Not safe to use from several threads at once.
class Emulation {
 public:
  // Runs `graph`, which is specialized and optimized, in f32 and keeps every value. `workers`
  // outlives it. Throws what running the graph throws.
  Emulation(const Graph& graph, DType to, std::vector<Tensor> inputs, compute::Workers& workers);

  const Graph& graph() const noexcept { return wide_; }
  // Whether each node may compute in the narrow type.
  const std::vector<bool>& candidates() const noexcept { return candidates_; }
  // The range of each node.
  const std::vector<NodeRange>& ranges() const noexcept { return ranges_; }
  std::vector<Tensor> expected_outputs() const;  // the outputs in f32

  // The loss of the outputs with the nodes of this mask in the narrow type.
  double loss(const std::vector<bool>& narrow);
  // The same, but nodes that overflow stay in f32: they are removed from `narrow` and marked in
  // ranges().
  double loss_without_overflow(std::vector<bool>& narrow);
  // The loss of a node's own outputs if it alone is narrow.
  double own_loss(std::size_t node);

  // FLOPs of all runs so far.
  double spent() const noexcept { return spent_; }

  // The memory that an emulation takes: every value, and the constants twice.
  static double bytes(const Graph& graph);

 private:
  using Values = std::vector<Tensor>;

  void make_narrow_constants();
  const Kernel& kernel(std::size_t node, bool narrow);
  void compute(std::size_t node, bool narrow, const Values& from, Values& to);
  void compute_rounded(std::size_t node, const Values& changed, Values& to);
  bool is_read_changed(std::size_t node, const Values& changed) const;
  bool overflows(std::size_t node, const Values& made);
  double run(std::vector<bool>& narrow, bool repair);
  double outputs_lost(const Values& changed) const;

  const Graph wide_;
  Graph narrow_;  // candidates read rounded constants
  const DType to_;
  cpu::Context context_;
  std::vector<bool> candidates_;
  std::vector<NodeRange> ranges_;
  std::vector<double> flops_;
  std::vector<std::unique_ptr<Kernel>> kernels_[2];  // wide and narrow, made when first needed
  Values values_;                                    // in f32
  Tensor scratch_;                                   // aligned for kernels
  double spent_ = 0;
};

}  // namespace sluice::engine

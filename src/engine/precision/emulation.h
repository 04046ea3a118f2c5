// What a graph makes of some inputs when some of its nodes compute in f16 or bf16, on the CPU:
// such a node reads what is rounded to the type, sums in f32, and rounds what it makes. That is
// what a GPU does, but for the order of its sums.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "engine/exec/cpu/backend.h"

namespace sluice::engine {

// How far an output is from what it should be: the largest difference, of the largest number
// that it should have. What is no number, or infinite, where it should not be is infinitely far.
double loss_of(const Tensor& should, const Tensor& is);
// The largest of those of the outputs that are floats; others count for nothing.
double loss_of(std::span<const Tensor> should, std::span<const Tensor> is);

// What was seen of a node that computed in the narrow type.
struct NodeRange {
  float most = 0;  // the largest magnitude of what it made in f32
  // It made more than a quarter of what the type can hold, or infinity, where f32 did not.
  bool overflows = false;
  bool infinite = false;  // or no number
};

// Not safe to use from several threads at once.
class Emulation {
 public:
  // Runs `graph`, which is specialized and optimized, in f32 and keeps every value. `workers`
  // outlives it. Throws what running it throws.
  Emulation(const Graph& graph, DType to, std::vector<Tensor> inputs, compute::Workers& workers);

  const Graph& graph() const noexcept { return wide_; }
  // By node: whether it may compute in the narrow type.
  const std::vector<bool>& candidates() const noexcept { return candidates_; }
  // By node, of what f32 made.
  const std::vector<NodeRange>& ranges() const noexcept { return ranges_; }
  std::vector<Tensor> should_be() const;  // the outputs in f32

  // The loss of the outputs where these nodes, by their place, are narrow.
  double loss(const std::vector<bool>& narrow);
  // The same with all that may be; those that overflow are made wide on the way, taken out of
  // `narrow`, and marked in ranges().
  double loss_without_overflow(std::vector<bool>& narrow);
  // What a node loses by itself: narrow on the inputs that it has in f32, of its largest result.
  double own_loss(std::size_t node);

  // Multiplications and additions of all runs so far.
  double spent() const noexcept { return spent_; }

  // Bytes that it takes: every value, and the constants twice.
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
  Graph narrow_;  // nodes that are candidates read constants that are rounded
  const DType to_;
  cpu::Context context_;
  std::vector<bool> candidates_;
  std::vector<NodeRange> ranges_;
  std::vector<double> flops_;
  std::vector<std::unique_ptr<Kernel>> kernels_[2];  // wide and narrow, made when first needed
  Values values_;                                    // in f32
  Tensor scratch_;                                   // aligned, as kernels want it
  double spent_ = 0;
};

}  // namespace sluice::engine

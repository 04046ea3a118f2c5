// A node as its kernel's maker looks at it, and kernels that are one function.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/exec/cuda/context/backend.h"
#include "kernels/common/real_type.h"

namespace sluice::engine::cuda {

class Site {
 public:
  Site(const Graph& graph, const Node& node) : graph_(&graph), node_(&node) {}

  const Node& node() const noexcept { return *node_; }
  const Attributes& attributes() const noexcept { return node_->attributes; }
  int version() const noexcept { return node_->version; }

  std::size_t inputs() const noexcept { return node_->inputs.size(); }
  std::size_t outputs() const noexcept { return node_->outputs.size(); }
  bool has(std::size_t i) const { return i < inputs() && node_->inputs[i] != kNoValue; }
  bool wants(std::size_t i) const { return i < outputs() && node_->outputs[i] != kNoValue; }
  TensorType in(std::size_t i) const { return type_of((*graph_)[node_->inputs[i]]); }
  TensorType out(std::size_t i) const { return type_of((*graph_)[node_->outputs[i]]); }

  // None where it is left out or no constant.
  Tensor constant(std::size_t i) const {
    return has(i) ? (*graph_)[node_->inputs[i]].constant : Tensor();
  }
  // All of a constant of i64 or i32; none where it is no such.
  std::optional<std::vector<std::int64_t>> integers(std::size_t i) const;
  // The one number of a constant.
  std::optional<double> number(std::size_t i) const;
  // What older versions have as an attribute and newer ones as an input.
  std::optional<std::vector<std::int64_t>> list(std::size_t input,
                                                std::string_view attribute) const;

 private:
  const Graph* graph_;
  const Node* node_;
};

// A kernel that calls `run(args)`. `reads`: the inputs whose constants it asks for, a bit each.
template <class Run>
class Launched final : public Kernel {
 public:
  Launched(std::string what, std::uint32_t reads, std::size_t scratch, int in_place, Run run)
      : what_(std::move(what)),
        reads_(reads),
        scratch_(scratch),
        in_place_(in_place),
        run_(std::move(run)) {}

  void run(const KernelArgs& args) const override { run_(args); }
  std::string_view what() const override { return what_; }
  std::size_t scratch() const override { return scratch_; }
  int in_place() const override { return in_place_; }
  bool reads_constant(std::size_t input) const override {
    return input >= 32 || (reads_ >> input & 1u) != 0;
  }

 private:
  std::string what_;
  std::uint32_t reads_;
  std::size_t scratch_;
  int in_place_;
  Run run_;
};

inline constexpr std::uint32_t kReadsAll = 0xffffffffu;

template <class Run>
std::unique_ptr<Kernel> launched(std::string what, Run run, std::uint32_t reads = kReadsAll,
                                 std::size_t scratch = 0, int in_place = -1) {
  return std::make_unique<Launched<Run>>(std::move(what), reads, scratch, in_place, std::move(run));
}

// For a node whose outputs have no elements.
inline std::unique_ptr<Kernel> nothing_to_do() {
  return launched(
      "nothing", [](const KernelArgs&) {}, 0);
}

// f32, f16 or bf16.
inline bool is_computed_real(DType type) {
  return type == DType::f32 || type == DType::f16 || type == DType::bf16;
}
// Of such a type.
inline RealType real_type(DType type) {
  if (type == DType::f32) return RealType::f32;
  return type == DType::f16 ? RealType::f16 : RealType::bf16;
}

}  // namespace sluice::engine::cuda

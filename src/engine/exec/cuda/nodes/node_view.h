// Access to a node's types, attributes and constants for kernel makers, and kernels from a lambda.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/exec/cuda/context/backend.h"
#include "kernels/common/real_type.h"

namespace sluice::engine::cuda {

class NodeView {
 public:
  NodeView(const Graph& graph, const Node& node) : graph_(&graph), node_(&node) {}

  const Node& node() const noexcept { return *node_; }
  const Attributes& attributes() const noexcept { return node_->attributes; }
  int version() const noexcept { return node_->version; }

  std::size_t inputs() const noexcept { return node_->inputs.size(); }
  std::size_t outputs() const noexcept { return node_->outputs.size(); }
  bool has(std::size_t i) const { return i < inputs() && node_->inputs[i] != kNoValue; }
  bool wants(std::size_t i) const { return i < outputs() && node_->outputs[i] != kNoValue; }
  TensorType in(std::size_t i) const { return type_of((*graph_)[node_->inputs[i]]); }
  TensorType out(std::size_t i) const { return type_of((*graph_)[node_->outputs[i]]); }

  // None if it is omitted or not a constant.
  Tensor constant(std::size_t i) const {
    return has(i) ? (*graph_)[node_->inputs[i]].constant : Tensor();
  }
  // The values of a constant of i64 or i32; none if it is not one.
  std::optional<std::vector<std::int64_t>> integers(std::size_t i) const;
  // The value of a scalar constant.
  std::optional<double> number(std::size_t i) const;
  // A list that older opsets have as an attribute and newer ones as an input.
  std::optional<std::vector<std::int64_t>> list(std::size_t input,
                                                std::string_view attribute) const;

 private:
  const Graph* graph_;
  const Node* node_;
};

// A kernel that calls `run(args)`. `reads`: a bit mask of the inputs whose constants it reads.
template <class Run>
class Launched final : public Kernel {
 public:
  Launched(std::string name, std::uint32_t reads, std::size_t scratch, int in_place, Run run)
      : name_(std::move(name)),
        reads_(reads),
        scratch_(scratch),
        in_place_(in_place),
        run_(std::move(run)) {}

  void run(const KernelArgs& args) const override { run_(args); }
  std::string_view name() const override { return name_; }
  std::size_t scratch() const override { return scratch_; }
  int in_place() const override { return in_place_; }
  bool reads_constant(std::size_t input) const override {
    return input >= 32 || (reads_ >> input & 1u) != 0;
  }

 private:
  std::string name_;
  std::uint32_t reads_;
  std::size_t scratch_;
  int in_place_;
  Run run_;
};

inline constexpr std::uint32_t kReadsAll = 0xffffffffu;

template <class Run>
std::unique_ptr<Kernel> launched(std::string name, Run run, std::uint32_t reads = kReadsAll,
                                 std::size_t scratch = 0, int in_place = -1) {
  return std::make_unique<Launched<Run>>(std::move(name), reads, scratch, in_place, std::move(run));
}

// The kernel of a node whose outputs have no elements.
inline std::unique_ptr<Kernel> nothing_to_do() {
  return launched(
      "no-op", [](const KernelArgs&) {}, 0);
}

// f32, f16 or bf16.
inline bool is_computed_real(DType type) {
  return type == DType::f32 || type == DType::f16 || type == DType::bf16;
}
// `type` is one of these.
inline RealType real_type(DType type) {
  if (type == DType::f32) return RealType::f32;
  return type == DType::f16 ? RealType::f16 : RealType::bf16;
}

}  // namespace sluice::engine::cuda

// What a DnnFusion is in cuDNN's terms.
#pragma once

#include <deque>
#include <optional>

#include "engine/exec/cuda/cudnn/cudnn_fusion.h"
#include "engine/exec/cuda/cudnn/cudnn_library.h"

namespace sluice::engine::cuda::dnn {

// Of the tensors, by which addresses are given for a run.
enum Id : std::int64_t { kX = 1, kW, kY, kBias, kResidual, kFirstVirtual = 100 };

// Whether cuDNN has the element type and the activation.
bool knows(const DnnFusion& fusion);

// The operations of a fusion, and the descriptors they are made of.
class Operations {
 public:
  // Throws unavailable where cuDNN does not know its type, its activation or such shapes.
  Operations(const Library& library, const DnnFusion& fusion);

  const Thing& graph() const noexcept { return *graph_; }

 private:
  Thing& thing(Kind kind) { return things_.emplace_back(library_, kind); }
  Thing& operation(Kind kind) { return operations_.emplace_back(library_, kind); }
  const Thing& tensor(std::int64_t id, const std::vector<std::int64_t>& dims);
  const Thing& bias();
  const Thing& next();
  void convolution(const Thing& x, const Thing& w, const Thing& y);
  void product(const Thing& x, const Thing& w, const Thing& y);
  Thing& started(Pointwise mode);
  const Thing& plain(Pointwise mode) { return started(mode).finish("an operation"); }
  const Thing& activation();
  const Thing& pointwise(const Thing& how, const Thing& x, const Thing* b);

  const Library& library_;
  const DnnFusion& fusion_;
  const DataType type_;
  int left_ = 0;  // operations after this one
  std::int64_t virtual_ = kFirstVirtual;
  std::deque<Thing> things_, operations_;  // they refer to each other: none moves
  const Thing* graph_ = nullptr;
};

}  // namespace sluice::engine::cuda::dnn

// Translates a CudnnFusion to a cuDNN operation graph.
#pragma once

#include <deque>
#include <optional>

#include "engine/exec/cuda/cudnn/cudnn_fusion.h"
#include "engine/exec/cuda/cudnn/cudnn_library.h"

namespace sluice::engine::cuda::cudnn {

// Tensor ids, by which a variant pack assigns addresses.
enum Id : std::int64_t { kX = 1, kW, kY, kBias, kResidual, kFirstVirtual = 100 };

// Whether cuDNN supports the element type and the activation.
bool supports(const CudnnFusion& fusion);

// The operation graph of a fusion, with the descriptors it refers to.
class Operations {
 public:
  // Throws unavailable if cuDNN does not support its type, activation or shapes.
  Operations(const Library& library, const CudnnFusion& fusion);

  const BackendDescriptor& graph() const noexcept { return *graph_; }

 private:
  BackendDescriptor& descriptor(cudnnBackendDescriptorType_t kind) {
    return descriptors_.emplace_back(library_, kind);
  }
  BackendDescriptor& operation(cudnnBackendDescriptorType_t kind) {
    return operations_.emplace_back(library_, kind);
  }
  const BackendDescriptor& tensor(std::int64_t id, const std::vector<std::int64_t>& dims);
  const BackendDescriptor& bias();
  const BackendDescriptor& next();
  void convolution(const BackendDescriptor& x, const BackendDescriptor& w,
                   const BackendDescriptor& y);
  void matmul(const BackendDescriptor& x, const BackendDescriptor& w, const BackendDescriptor& y);
  BackendDescriptor& pointwise_mode(cudnnPointwiseMode_t mode);
  const BackendDescriptor& plain(cudnnPointwiseMode_t mode) {
    return pointwise_mode(mode).finish("an operation");
  }
  const BackendDescriptor& activation();
  const BackendDescriptor& pointwise(const BackendDescriptor& how, const BackendDescriptor& x,
                                     const BackendDescriptor* b);

  const Library& library_;
  const CudnnFusion& fusion_;
  const cudnnDataType_t type_;
  int remaining_ = 0;  // operations after this one
  std::int64_t virtual_ = kFirstVirtual;
  std::deque<BackendDescriptor> descriptors_, operations_;  // they refer to each other: none moves
  const BackendDescriptor* graph_ = nullptr;
};

}  // namespace sluice::engine::cuda::cudnn

// Convolutions and products with all that follows them as one kernel of cuDNN, opened at run
// time; the engine that measured best.
#pragma once

#include <array>

#include "engine/exec/cuda/context/backend.h"
#include "kernels/common/activation.h"

namespace sluice::engine::cuda {

// y = activation(x w + residual + bias), of one element type, sums in f32. Without `tf32` of the
// context, f32 stays f32.
struct DnnFusion {
  DType dtype = DType::none;
  // Of a convolution: [batch, channels, height, width], with the channels of one pixel side by
  // side in memory, w as [out, rows, columns, in / group]. Of a product: x [1, m, k],
  // w [1, k, n], y [1, m, n], row by row in memory.
  std::vector<std::int64_t> x, w, y;
  bool product = false;
  std::array<std::int64_t, 2> strides{1, 1}, dilations{1, 1}, before{}, behind{};  // padding
  bool bias = false, residual = false;
  Activation activation = Activation::none;
  float low = 0, high = 0;
};

// All that a choice among engines depends on, besides the device and cuDNN.
std::string name_of(const DnnFusion& fusion, const Options& options);

// Thread-safe.
class DnnPlan {
 public:
  // Throws unavailable where cuDNN is not here or has no way to do it. To be made by whoever holds
  // Context::making; runs need not.
  DnnPlan(Context& context, const DnnFusion& fusion);
  ~DnnPlan();
  DnnPlan(const DnnPlan&) = delete;
  DnnPlan& operator=(const DnnPlan&) = delete;

  std::size_t scratch() const noexcept;

  struct Places {
    const void *x, *w, *bias, *residual;  // the last two null where there are none
    void *y, *scratch;
  };
  void run(const Places& at, CUstream_st* stream) const;

  double us() const noexcept;  // as ProductPlan has it
  // Of the choice that the context keeps.
  const std::string& name() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The same, null where cuDNN refuses, or fails this time only.
std::unique_ptr<DnnPlan> plan_dnn(Context& context, const DnnFusion& fusion);

}  // namespace sluice::engine::cuda

// Where a text model computes, and in which precision.
#pragma once

#include <memory>

#include "compute/workers.h"
#include "engine/encoder/encoder.h"

namespace sluice::models {

struct Placement {
  std::shared_ptr<engine::EncoderDevice> device{};  // none: the CPU, in fp32
  DType precision = DType::f32;
  // How much f16 and bf16 may differ from fp32 on the CPU, of the largest output, for random
  // tokens. Infinite: it is not measured.
  double max_loss = 0.01;
  bool falls_back = false;  // to fp32 where that is too much; else it is an error
};

// Throws unavailable if the device cannot compute the model, or loses too much.
engine::Encoder encoder_at(const Placement& placement, const engine::Graph& model,
                           compute::Workers& workers, engine::EncoderOptions options);

}  // namespace sluice::models

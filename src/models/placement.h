// Where a text model computes, and in which precision.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

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

// On a GPU, whose context has engine::encoder_context_options(). `precision`: fp32, fp16, bf16, or
// auto, which is fp16 where the GPU has tensor cores and it loses little. Without a `max_loss`:
// 0.01, for bf16 0.08. Throws invalid_argument for another name.
Placement placement_on(std::shared_ptr<engine::cuda::Context> gpu, std::string_view precision,
                       std::optional<double> max_loss, compute::Workers& workers);

// Throws unavailable if the device cannot compute the model, or loses too much.
engine::Encoder encoder_at(const Placement& placement, const engine::Graph& model,
                           compute::Workers& workers, engine::EncoderOptions options);

}  // namespace sluice::models

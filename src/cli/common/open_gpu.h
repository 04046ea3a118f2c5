// The context of the first GPU, for commands that compute on one.
#pragma once

#include <memory>

#include "engine/exec/cuda/context/backend.h"

namespace sluice::cli {

// Throws unavailable, with what is missing, where there is no GPU to run on.
std::shared_ptr<engine::cuda::Context> open_gpu(engine::cuda::Options options);

}  // namespace sluice::cli

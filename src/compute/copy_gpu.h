#pragma once

#include "compute/operation.h"

namespace sluice::compute {

using GpuFunction = void (*)(const Call&, LaunchContext&);
GpuFunction copy_gpu_function();  // null in a build without CUDA

}  // namespace sluice::compute

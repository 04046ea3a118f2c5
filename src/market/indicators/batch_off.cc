#include "market/indicators/batch.h"

namespace sluice::market {

GpuFunction batch_gpu_function() { return nullptr; }

}  // namespace sluice::market

#include "market/gpu/gpu_operations.h"

namespace sluice::market {

GpuOperations gpu_operations() { return {}; }

}  // namespace sluice::market

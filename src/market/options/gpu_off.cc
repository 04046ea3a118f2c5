#include "market/options/gpu.h"

namespace sluice::market {

OptionsOnGpu options_on_gpu() { return {}; }

}  // namespace sluice::market

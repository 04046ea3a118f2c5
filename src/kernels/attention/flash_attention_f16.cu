#include "kernels/attention/flash_attention.cuh"

namespace sluice::kernels::cuda {

void prepare_flash_f16(int size) { prepare_flash<__half>(size); }
void flash_f16(const AttentionCall& call, const LaunchArgs& args) { run_flash<__half>(call, args); }

}  // namespace sluice::kernels::cuda

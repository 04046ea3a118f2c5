#include "kernels/attention/flash_attention.cuh"

namespace sluice::kernels::cuda {

void prepare_flash_attention_f16(int size) { prepare_flash_attention<__half>(size); }
void flash_attention_f16(const AttentionCall& call, const LaunchArgs& args) {
  run_flash_attention<__half>(call, args);
}

}  // namespace sluice::kernels::cuda

#include "kernels/attention/flash_attention.cuh"

namespace sluice::kernels::cuda {

void prepare_flash_attention_bf16(int size) { prepare_flash_attention<__nv_bfloat16>(size); }
void flash_attention_bf16(const AttentionCall& call, const LaunchArgs& args) {
  run_flash_attention<__nv_bfloat16>(call, args);
}

}  // namespace sluice::kernels::cuda

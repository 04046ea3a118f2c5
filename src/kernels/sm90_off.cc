// The kernels for sm_90a in a build without that code. Context::has_sm90() is false there, so none
// of the functions that launch is called.
#include "base/error.h"
#include "kernels/attention/flash_attention_sm90.h"
#include "kernels/conv/conv_few_channels_sm90.h"
#include "kernels/gemm/gemm_sm90.h"
#include "kernels/gemm/linear_sm90.h"

namespace sluice::kernels::cuda {
namespace {

[[noreturn]] void no_sm90_code() {
  throw Error(Code::internal, "this build has no code for sm_90a: see SLUICE_CUDA_ARCHS");
}

}  // namespace

bool flash_attention_sm90_supports(const AttentionCall&) { return false; }
void prepare_flash_attention_sm90(RealType, int) { no_sm90_code(); }
void flash_attention_sm90(RealType, const AttentionCall&, const LaunchArgs&) { no_sm90_code(); }

bool conv_few_channels_supports(const ConvCall&) { return false; }
void enqueue_conv_few_channels(const ConvCall&, CUstream_st*) { no_sm90_code(); }

bool gemm_sm90_supports(const TileGemmCall&) { return false; }
void enqueue_gemm_sm90(const TileGemmCall&, CUstream_st*) { no_sm90_code(); }

bool linear_sm90_supports(const LinearCall&) { return false; }
void prepare_linear_sm90() { no_sm90_code(); }
void enqueue_linear_sm90(const LinearCall&, CUstream_st*) { no_sm90_code(); }
std::size_t packed_linear_weight_bytes(int, int) { no_sm90_code(); }
void enqueue_pack_linear_weights(const void*, void*, int, int, CUstream_st*) { no_sm90_code(); }

}  // namespace sluice::kernels::cuda

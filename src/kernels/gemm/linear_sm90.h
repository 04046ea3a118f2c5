// The Linear layer of transformer encoders on Hopper (compute capability 9.0: TMA, wgmma):
//   y = activation(x * W + bias) + residual
// x is [rows, k], W [k, n], y and residual [rows, n]. Sums are f32; k is added up in the same order
// in every tile shape, so a row's bits depend on nothing but that row, W, bias and residual.
// What is activated, and what the residual is added to, was rounded to the type of y before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/common/activation.h"
#include "kernels/common/real_type.h"
#include "kernels/gemm/linear_tile.h"

struct CUstream_st;

namespace sluice::kernels::cuda {

// Addresses are multiples of 16.
struct LinearCall {
  RealType type = RealType::f16;  // of all operands: f16 or bf16
  const void* x = nullptr;
  const void* weight = nullptr;  // packed by enqueue_pack_linear_weights()
  const void* bias = nullptr;    // n values; null: none
  Activation activation = Activation::none;
  void* pre_activation =
      nullptr;  // [rows, n]: what is activated, for the backward pass; null: none
  const void* residual = nullptr;  // null: none; may be y
  void* y = nullptr;
  std::int64_t rows = 0;
  int n = 0, k = 0;
  // In device memory, read by the kernel: how many rows are live; null: all of them. The others
  // may hold anything, are not computed and not written.
  const std::int32_t* live_rows = nullptr;
  // The kernel may start before the previous one in the stream has ended; it waits by itself.
  bool starts_early = false;
  std::optional<LinearTile> tile{};  // none: choose_linear_tile()
};

// Whether the kernel can do `call`: f16 or bf16; no activation, relu, gelu or gelu_tanh; n and k
// are multiples of 8. The addresses in `call` are not looked at.
bool linear_sm90_supports(const LinearCall& call);

// Sets the kernels' shared memory limits on the current device; call it before the first launch.
void prepare_linear_sm90();

void enqueue_linear_sm90(const LinearCall& call, CUstream_st* stream);

// W [k, n], with elements of two bytes, as the kernel takes it: [n, k].
std::size_t packed_linear_weight_bytes(int n, int k);
void enqueue_pack_linear_weights(const void* weight, void* packed, int n, int k,
                                 CUstream_st* stream);

}  // namespace sluice::kernels::cuda

// The operators, one file per family.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "engine/ops/op.h"

namespace sluice::engine {

inline constexpr std::string_view kMlDomain = "ai.onnx.ml";  // classical machine learning models

std::span<const Op> binary_ops();        // two broadcast tensors
std::span<const Op> shape_ops();         // constants and views
std::span<const Op> layout_ops();        // transpose, slice, concat, tile
std::span<const Op> gather_ops();        // gather and compress
std::span<const Op> control_ops();       // If and Loop
std::span<const Op> unary_ops();         // elementwise functions of one tensor
std::span<const Op> activation_ops();    // activation functions
std::span<const Op> compare_ops();       // comparison and logical operators, and Where
std::span<const Op> variadic_ops();      // Max, Min, Sum, Mean, Clip
std::span<const Op> cast_ops();          // type conversion
std::span<const Op> pad_ops();           // Pad
std::span<const Op> scatter_ops();       // scatter
std::span<const Op> generate_ops();      // Range, EyeLike, Trilu, OneHot
std::span<const Op> col2im_ops();        // Col2Im
std::span<const Op> top_k_ops();         // TopK
std::span<const Op> unique_ops();        // Unique
std::span<const Op> sequence_ops();      // Sequence and Optional
std::span<const Op> scan_ops();          // Scan
std::span<const Op> quantize_ops();      // QuantizeLinear and DequantizeLinear
std::span<const Op> reduce_ops();        // reductions, ArgMax and ArgMin
std::span<const Op> softmax_ops();       // Softmax, LogSoftmax, Hardmax
std::span<const Op> cumsum_ops();        // CumSum and CumProd
std::span<const Op> matmul_ops();        // MatMul and Gemm, also quantized
std::span<const Op> einsum_ops();        // Einsum
std::span<const Op> det_ops();           // Det
std::span<const Op> normalize_ops();     // normalization
std::span<const Op> conv_ops();          // convolutions, float and quantized
std::span<const Op> conv_special_ops();  // transposed, deformable and causal convolutions
std::span<const Op> pool_ops();          // pooling
std::span<const Op> region_ops();        // RoiAlign, MaxRoiPool, NonMaxSuppression
std::span<const Op> grid_ops();          // GridSample and AffineGrid
std::span<const Op> recurrent_ops();     // RNN, GRU, LSTM
std::span<const Op> attention_ops();
std::span<const Op> attention_variant_ops();  // flex and linear attention; rotary embedding
std::span<const Op> loss_ops();               // loss functions
std::span<const Op> signal_ops();             // DFT, STFT, window functions
std::span<const Op> image_ops();              // ImageDecoder
std::span<const Op> training_ops();           // optimizers: Adagrad, Adam, Momentum
std::span<const Op> resize_ops();             // Resize and Upsample
std::span<const Op> random_ops();             // random numbers
std::span<const Op> text_ops();               // strings
std::span<const Op> tfidf_ops();              // TfIdfVectorizer
std::span<const Op> encoder_ops();            // label and category encoders
std::span<const Op> feature_ops();            // feature preprocessing
std::span<const Op> linear_ops();             // linear models
std::span<const Op> svm_ops();                // support vector machines
std::span<const Op> tree_ops();               // decision trees
std::span<const Op> fused_attention_ops();    // fused Attention, PadTokens, PoolTokens
std::span<const Op> fused_ops();              // fused Linear, Conv, Norm, pools: see fused_ops.h
std::span<const Op> fused_chain_ops();        // fused elementwise Chain
std::span<const Op> fused_quantized_ops();    // fused quantized Linear and Conv

inline std::vector<std::span<const Op>> families() {
  return {binary_ops(),
          shape_ops(),
          layout_ops(),
          gather_ops(),
          control_ops(),
          unary_ops(),
          activation_ops(),
          compare_ops(),
          variadic_ops(),
          cast_ops(),
          pad_ops(),
          scatter_ops(),
          generate_ops(),
          col2im_ops(),
          top_k_ops(),
          unique_ops(),
          sequence_ops(),
          scan_ops(),
          quantize_ops(),
          reduce_ops(),
          softmax_ops(),
          cumsum_ops(),
          matmul_ops(),
          einsum_ops(),
          det_ops(),
          normalize_ops(),
          conv_ops(),
          conv_special_ops(),
          pool_ops(),
          region_ops(),
          grid_ops(),
          recurrent_ops(),
          attention_ops(),
          attention_variant_ops(),
          loss_ops(),
          signal_ops(),
          image_ops(),
          training_ops(),
          resize_ops(),
          random_ops(),
          text_ops(),
          tfidf_ops(),
          encoder_ops(),
          feature_ops(),
          linear_ops(),
          svm_ops(),
          tree_ops(),
          fused_attention_ops(),
          fused_ops(),
          fused_chain_ops(),
          fused_quantized_ops()};
}

}  // namespace sluice::engine

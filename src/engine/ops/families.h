// The operators, a file for each family of them.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "engine/ops/op.h"

namespace sluice::engine {

inline constexpr std::string_view kMlDomain = "ai.onnx.ml";  // of classical models

std::span<const Op> binary_ops();   // two tensors in, stretched to each other's shape
std::span<const Op> shape_ops();    // constants, and shapes that change around elements that stay
std::span<const Op> layout_ops();   // elements that change places
std::span<const Op> gather_ops();   // elements picked by indices or conditions
std::span<const Op> control_ops();  // nodes that run other graphs
std::span<const Op> unary_ops();    // one tensor in, a function of each element out
std::span<const Op> activation_ops();    // the functions between the layers of a network
std::span<const Op> compare_ops();       // questions about two tensors
std::span<const Op> variadic_ops();      // any number of tensors in
std::span<const Op> cast_ops();          // one element type as another
std::span<const Op> pad_ops();           // edges added or cut off
std::span<const Op> scatter_ops();       // elements written to places that indices name
std::span<const Op> generate_ops();      // tensors made by rule
std::span<const Op> col2im_ops();        // columns put back to pictures
std::span<const Op> sort_ops();          // the largest, the smallest, the different ones
std::span<const Op> sequence_ops();      // sequences of tensors and optional values
std::span<const Op> scan_ops();          // a body along tensors
std::span<const Op> quantize_ops();      // numbers in steps from a zero point
std::span<const Op> reduce_ops();        // axes made one
std::span<const Op> softmax_ops();       // along one axis: softmax, running sums
std::span<const Op> matmul_ops();        // products of matrices
std::span<const Op> einsum_ops();        // sums of products by an equation
std::span<const Op> normalize_ops();     // mean 0 and variance 1
std::span<const Op> conv_ops();          // convolutions, plain and quantized
std::span<const Op> conv_special_ops();  // transposed, deformed, with a state
std::span<const Op> pool_ops();          // windows made one number
std::span<const Op> region_ops();        // boxes in images
std::span<const Op> grid_ops();          // images read at places a grid says
std::span<const Op> recurrent_ops();     // layers that walk along sequences
std::span<const Op> attention_ops();
std::span<const Op> attention_more_ops();   // flexible, linear; positions as angles
std::span<const Op> loss_ops();             // predictions and their targets
std::span<const Op> signal_ops();           // signals and their spectra
std::span<const Op> image_ops();            // image files
std::span<const Op> training_ops();         // steps of training
std::span<const Op> resize_ops();           // pictures at other sizes
std::span<const Op> random_ops();           // random numbers
std::span<const Op> text_ops();             // strings
std::span<const Op> tfidf_ops();            // counts of n-grams
std::span<const Op> encoder_ops();          // categories as numbers and back
std::span<const Op> feature_ops();          // rows of numbers prepared
std::span<const Op> linear_ops();           // linear models
std::span<const Op> svm_ops();              // support vector machines
std::span<const Op> tree_ops();             // decision trees
std::span<const Op> fused_attention_ops();  // and what sequences without padding need
std::span<const Op> fused_ops();            // what fusing makes, see fused.h
std::span<const Op> fused_chain_ops();      // elementwise operators in one
std::span<const Op> fused_quantized_ops();  // products of small numbers

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
          sort_ops(),
          sequence_ops(),
          scan_ops(),
          quantize_ops(),
          reduce_ops(),
          softmax_ops(),
          matmul_ops(),
          einsum_ops(),
          normalize_ops(),
          conv_ops(),
          conv_special_ops(),
          pool_ops(),
          region_ops(),
          grid_ops(),
          recurrent_ops(),
          attention_ops(),
          attention_more_ops(),
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

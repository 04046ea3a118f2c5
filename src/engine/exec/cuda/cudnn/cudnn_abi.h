// The part of the cuDNN 9 backend API that is used here, with its documented values: the library is
// opened at run time, so its headers are not needed to build. The names are shortened.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;

namespace sluice::engine::cuda::cudnn {

using Handle = struct OpaqueHandle*;
using Descriptor = void*;

inline constexpr int kSuccess = 0;

enum class Kind : int {  // of descriptors
  pointwise = 0,
  convolution = 1,
  engine = 2,
  engine_config = 3,
  heuristics = 4,
  execution_plan = 5,
  knob_choice = 7,
  operation_convolution = 10,
  operation_pointwise = 13,
  operation_graph = 15,
  variant_pack = 16,
  tensor = 17,
  matmul = 18,
  operation_matmul = 19,
};

enum class Type : int {  // of attributes
  handle = 0,
  data_type = 1,
  boolean = 2,
  int64 = 3,
  real32 = 4,
  real64 = 5,
  pointer = 6,
  convolution_mode = 7,
  heuristics_mode = 8,
  knob_type = 9,
  numerical_note = 11,
  pointwise_mode = 14,
  descriptor = 15,
  character = 24,
};

enum class Attribute : int {
  pointwise_mode = 0,
  pointwise_precision = 1,
  pointwise_lower_clip = 3,
  pointwise_upper_clip = 4,
  convolution_compute = 100,
  convolution_mode = 101,
  convolution_dilations = 102,
  convolution_strides = 103,
  convolution_post_paddings = 104,
  convolution_pre_paddings = 105,
  convolution_spatial_dims = 106,
  heuristics_mode = 200,
  heuristics_graph = 201,
  heuristics_results = 202,
  engine_config_engine = 300,
  engine_config_knobs = 302,
  plan_handle = 400,
  plan_engine_config = 401,
  plan_workspace = 402,
  plan_json = 405,
  knob_type = 600,
  knob_value = 601,
  operation_convolution_alpha = 700,
  operation_convolution_beta = 701,
  operation_convolution_descriptor = 702,
  operation_convolution_w = 703,
  operation_convolution_x = 704,
  operation_convolution_y = 705,
  operation_pointwise_descriptor = 750,
  operation_pointwise_x = 751,
  operation_pointwise_b = 752,
  operation_pointwise_y = 753,
  graph_handle = 800,
  graph_operations = 801,
  tensor_alignment = 900,
  tensor_data_type = 901,
  tensor_dimensions = 902,
  tensor_strides = 903,
  tensor_id = 906,
  tensor_is_virtual = 907,
  pack_ids = 1000,
  pack_pointers = 1001,
  pack_workspace = 1003,
  engine_graph = 1300,
  engine_index = 1301,
  engine_numerical_note = 1303,
  matmul_compute = 1500,
  operation_matmul_a = 1520,
  operation_matmul_b = 1521,
  operation_matmul_c = 1522,
  operation_matmul_descriptor = 1523,
};

enum class DataType : int { f32 = 0, f64 = 1, f16 = 2, bf16 = 9 };
enum class ConvolutionMode : int { cross_correlation = 1 };
enum class HeuristicsMode : int { b = 1, fallback = 2, a = 3 };
enum class Note : int {
  tensor_core = 0,
  down_convert_inputs = 1,
  reduced_precision_reduction = 2,
  fft = 3,
  nondeterministic = 4,
  winograd = 5,
  winograd_4x4 = 6,
  winograd_6x6 = 7,
  winograd_13x13 = 8,
  strict_nan = 9,
};
enum class Pointwise : int {
  add = 0,
  relu = 100,
  tanh = 101,
  sigmoid = 102,
  gelu = 104,
  swish = 106,
  gelu_tanh = 107,
};

using Create = int(Handle*);
using Destroy = int(Handle);
using SetStream = int(Handle, CUstream_st*);
using ErrorString = const char*(int);
using Version = std::size_t();
using CreateDescriptor = int(Kind, Descriptor*);
using DestroyDescriptor = int(Descriptor);
using Finalize = int(Descriptor);
using SetAttribute = int(Descriptor, Attribute, Type, std::int64_t, const void*);
using GetAttribute = int(Descriptor, Attribute, Type, std::int64_t, std::int64_t*, void*);
using Execute = int(Handle, Descriptor, Descriptor);

}  // namespace sluice::engine::cuda::cudnn

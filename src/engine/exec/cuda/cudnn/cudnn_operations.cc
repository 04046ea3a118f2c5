#include "engine/exec/cuda/cudnn/cudnn_operations.h"

namespace sluice::engine::cuda::cudnn {
namespace {

std::optional<cudnnDataType_t> type_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return CUDNN_DATA_FLOAT;
    case DType::f16: return CUDNN_DATA_HALF;
    case DType::bf16: return CUDNN_DATA_BFLOAT16;
    default: return std::nullopt;
  }
}

std::optional<cudnnPointwiseMode_t> mode_of(const CudnnFusion& fusion) {
  switch (fusion.activation) {
    case Activation::relu: return CUDNN_POINTWISE_RELU_FWD;
    case Activation::clip:  // some engines ignore a lower bound other than 0
      if (fusion.low == 0) return CUDNN_POINTWISE_RELU_FWD;
      break;
    case Activation::gelu: return CUDNN_POINTWISE_GELU_FWD;
    case Activation::gelu_tanh: return CUDNN_POINTWISE_GELU_APPROX_TANH_FWD;
    case Activation::tanh: return CUDNN_POINTWISE_TANH_FWD;
    case Activation::sigmoid: return CUDNN_POINTWISE_SIGMOID_FWD;
    case Activation::silu: return CUDNN_POINTWISE_SWISH_FWD;
    case Activation::none:
    case Activation::hard_swish: break;
  }
  return std::nullopt;
}

std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& d) {
  if (d.size() == 3) return {d[1] * d[2], d[2], 1};
  return {d[1] * d[2] * d[3], 1, d[3] * d[1], d[1]};  // channels last
}

}  // namespace

bool supports(const CudnnFusion& fusion) {
  return type_of(fusion.dtype) && (fusion.activation == Activation::none || mode_of(fusion));
}

Operations::Operations(const Library& library, const CudnnFusion& fusion)
    : library_(library), fusion_(fusion), type_(*type_of(fusion.dtype)) {
  const BackendDescriptor& x = tensor(kX, fusion.x);
  const BackendDescriptor& w = tensor(kW, fusion.w);
  remaining_ = (fusion.residual ? 1 : 0) + (fusion.bias ? 1 : 0) +
               (fusion.activation != Activation::none ? 1 : 0);
  const BackendDescriptor* y = &next();
  fusion.gemm ? matmul(x, w, *y) : convolution(x, w, *y);
  if (fusion.residual) y = &pointwise(plain(CUDNN_POINTWISE_ADD), *y, &tensor(kResidual, fusion.y));
  if (fusion.bias) y = &pointwise(plain(CUDNN_POINTWISE_ADD), *y, &bias());
  if (fusion.activation != Activation::none) pointwise(activation(), *y, nullptr);
  std::vector<cudnnBackendDescriptor_t> all;
  for (const BackendDescriptor& operation : operations_) all.push_back(operation.get());
  graph_ = &descriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
                .set_list(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, all)
                .set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, library.builder)
                .finish("the operation graph");
}

const BackendDescriptor& Operations::tensor(std::int64_t id,
                                            const std::vector<std::int64_t>& dims) {
  const bool inside = id >= kFirstVirtual;
  const std::int64_t alignment = 16;
  return descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, inside ? CUDNN_DATA_FLOAT : type_)
      .set_list(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, dims)
      .set_list(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides_of(dims))
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, alignment)
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, inside)
      .finish("a tensor");
}

const BackendDescriptor& Operations::bias() {
  std::vector<std::int64_t> dims(fusion_.y.size(), 1);
  const std::size_t axis = fusion_.gemm ? 2 : 1;
  dims[axis] = fusion_.y[axis];
  return tensor(kBias, dims);
}

// The output of the next operation: y for the last one, else a virtual tensor.
const BackendDescriptor& Operations::next() {
  return tensor(remaining_-- == 0 ? static_cast<std::int64_t>(kY) : virtual_++, fusion_.y);
}

void Operations::convolution(const BackendDescriptor& x, const BackendDescriptor& w,
                             const BackendDescriptor& y) {
  const std::int64_t spatial = 2;
  const float one = 1, zero = 0;
  const BackendDescriptor& how =
      descriptor(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
          .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
          .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
               CUDNN_CROSS_CORRELATION)
          .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, spatial)
          .set_list(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, fusion_.strides)
          .set_list(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, fusion_.dilations)
          .set_list(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, fusion_.pre_padding)
          .set_list(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, fusion_.post_padding)
          .finish("a convolution");
  operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, how)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, one)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, zero)
      .finish("a convolution operation");
}

void Operations::matmul(const BackendDescriptor& x, const BackendDescriptor& w,
                        const BackendDescriptor& y) {
  const BackendDescriptor& how =
      descriptor(CUDNN_BACKEND_MATMUL_DESCRIPTOR)
          .set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
          .finish("a matmul");
  operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how)
      .set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, x)
      .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, w)
      .set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, y)
      .finish("a matmul operation");
}

BackendDescriptor& Operations::pointwise_mode(cudnnPointwiseMode_t mode) {
  return descriptor(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
      .set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode)
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
}

const BackendDescriptor& Operations::activation() {
  BackendDescriptor& made = pointwise_mode(*mode_of(fusion_));
  if (fusion_.activation == Activation::clip) {
    const double low = fusion_.low, high = fusion_.high;
    made.set(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, CUDNN_TYPE_DOUBLE, low)
        .set(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE, high);
  }
  return made.finish("an activation");
}

const BackendDescriptor& Operations::pointwise(const BackendDescriptor& how,
                                               const BackendDescriptor& x,
                                               const BackendDescriptor* b) {
  const BackendDescriptor& y = next();
  BackendDescriptor& made = operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  if (b != nullptr) made.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  made.finish("a pointwise operation");
  return y;
}

}  // namespace sluice::engine::cuda::cudnn

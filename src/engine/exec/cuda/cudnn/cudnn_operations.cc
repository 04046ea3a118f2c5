#include "engine/exec/cuda/cudnn/cudnn_operations.h"

namespace sluice::engine::cuda::cudnn {
namespace {

std::optional<DataType> type_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return DataType::f32;
    case DType::f16: return DataType::f16;
    case DType::bf16: return DataType::bf16;
    default: return std::nullopt;
  }
}

std::optional<Pointwise> mode_of(const CudnnFusion& fusion) {
  switch (fusion.activation) {
    case Activation::relu: return Pointwise::relu;
    case Activation::clip:  // some engines ignore a lower bound other than 0
      if (fusion.low == 0) return Pointwise::relu;
      break;
    case Activation::gelu: return Pointwise::gelu;
    case Activation::gelu_tanh: return Pointwise::gelu_tanh;
    case Activation::tanh: return Pointwise::tanh;
    case Activation::sigmoid: return Pointwise::sigmoid;
    case Activation::silu: return Pointwise::swish;
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
  if (fusion.residual) y = &pointwise(plain(Pointwise::add), *y, &tensor(kResidual, fusion.y));
  if (fusion.bias) y = &pointwise(plain(Pointwise::add), *y, &bias());
  if (fusion.activation != Activation::none) pointwise(activation(), *y, nullptr);
  std::vector<Descriptor> all;
  for (const BackendDescriptor& operation : operations_) all.push_back(operation.get());
  graph_ = &descriptor(Kind::operation_graph)
                .set_list(Attribute::graph_operations, Type::descriptor, all)
                .set(Attribute::graph_handle, Type::handle, library.builder)
                .finish("the operation graph");
}

const BackendDescriptor& Operations::tensor(std::int64_t id,
                                            const std::vector<std::int64_t>& dims) {
  const bool inside = id >= kFirstVirtual;
  const std::int64_t alignment = 16;
  return descriptor(Kind::tensor)
      .set(Attribute::tensor_data_type, Type::data_type, inside ? DataType::f32 : type_)
      .set_list(Attribute::tensor_dimensions, Type::int64, dims)
      .set_list(Attribute::tensor_strides, Type::int64, strides_of(dims))
      .set(Attribute::tensor_id, Type::int64, id)
      .set(Attribute::tensor_alignment, Type::int64, alignment)
      .set(Attribute::tensor_is_virtual, Type::boolean, inside)
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
      descriptor(Kind::convolution)
          .set(Attribute::convolution_compute, Type::data_type, DataType::f32)
          .set(Attribute::convolution_mode, Type::convolution_mode,
               ConvolutionMode::cross_correlation)
          .set(Attribute::convolution_spatial_dims, Type::int64, spatial)
          .set_list(Attribute::convolution_strides, Type::int64, fusion_.strides)
          .set_list(Attribute::convolution_dilations, Type::int64, fusion_.dilations)
          .set_list(Attribute::convolution_pre_paddings, Type::int64, fusion_.pre_padding)
          .set_list(Attribute::convolution_post_paddings, Type::int64, fusion_.post_padding)
          .finish("a convolution");
  operation(Kind::operation_convolution)
      .set(Attribute::operation_convolution_descriptor, how)
      .set(Attribute::operation_convolution_x, x)
      .set(Attribute::operation_convolution_w, w)
      .set(Attribute::operation_convolution_y, y)
      .set(Attribute::operation_convolution_alpha, Type::real32, one)
      .set(Attribute::operation_convolution_beta, Type::real32, zero)
      .finish("a convolution operation");
}

void Operations::matmul(const BackendDescriptor& x, const BackendDescriptor& w,
                        const BackendDescriptor& y) {
  const BackendDescriptor& how = descriptor(Kind::matmul)
                                     .set(Attribute::matmul_compute, Type::data_type, DataType::f32)
                                     .finish("a matmul");
  operation(Kind::operation_matmul)
      .set(Attribute::operation_matmul_descriptor, how)
      .set(Attribute::operation_matmul_a, x)
      .set(Attribute::operation_matmul_b, w)
      .set(Attribute::operation_matmul_c, y)
      .finish("a matmul operation");
}

BackendDescriptor& Operations::pointwise_mode(Pointwise mode) {
  return descriptor(Kind::pointwise)
      .set(Attribute::pointwise_mode, Type::pointwise_mode, mode)
      .set(Attribute::pointwise_precision, Type::data_type, DataType::f32);
}

const BackendDescriptor& Operations::activation() {
  BackendDescriptor& made = pointwise_mode(*mode_of(fusion_));
  if (fusion_.activation == Activation::clip) {
    const double low = fusion_.low, high = fusion_.high;
    made.set(Attribute::pointwise_lower_clip, Type::real64, low)
        .set(Attribute::pointwise_upper_clip, Type::real64, high);
  }
  return made.finish("an activation");
}

const BackendDescriptor& Operations::pointwise(const BackendDescriptor& how,
                                               const BackendDescriptor& x,
                                               const BackendDescriptor* b) {
  const BackendDescriptor& y = next();
  BackendDescriptor& made = operation(Kind::operation_pointwise);
  made.set(Attribute::operation_pointwise_descriptor, how)
      .set(Attribute::operation_pointwise_x, x)
      .set(Attribute::operation_pointwise_y, y);
  if (b != nullptr) made.set(Attribute::operation_pointwise_b, *b);
  made.finish("a pointwise operation");
  return y;
}

}  // namespace sluice::engine::cuda::cudnn

#include "kernels/ptx/tensor_map.h"

#include <fmt/core.h>

#include "base/error.h"
#include "device/cuda/driver_function.h"

namespace sluice::kernels::cuda {
namespace {

struct Encoders {
  decltype(&cuTensorMapEncodeTiled) tiled;
  decltype(&cuTensorMapEncodeIm2col) im2col;

  Encoders() {
    device::find_in_driver(tiled, "cuTensorMapEncodeTiled");
    device::find_in_driver(im2col, "cuTensorMapEncodeIm2col");
  }
  static const Encoders& get() {
    static const Encoders encoders;
    return encoders;
  }
};

void check(CUresult result, const char* what, std::int64_t rows) {
  if (result != CUDA_SUCCESS)
    device::check(device::GpuLibrary::cuda, static_cast<int>(result),
                  fmt::format("tensor map of {} {}: CUDA driver error {}", rows, what,
                              static_cast<int>(result)));
}

CUtensorMapSwizzle swizzle_of(BoxShape box) {
  return box.row_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B;
}

// The offset of the last window's first pixel from the last pixel of an axis.
int upper_corner(int size, int windows, int stride, int pad) {
  return (windows - 1) * stride - pad - (size - 1);
}

}  // namespace

CUtensorMap tensor_map_2d(const void* x, std::int64_t rows, std::int64_t bytes, BoxShape box,
                          std::int64_t stride) {
  CUtensorMap map{};
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(bytes), static_cast<cuuint64_t>(rows)};
  const cuuint32_t box_sizes[] = {static_cast<cuuint32_t>(box.row_bytes),
                                  static_cast<cuuint32_t>(box.rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(stride)};
  const cuuint32_t element_strides[] = {1, 1};
  check(Encoders::get().tiled(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, const_cast<void*>(x), sizes,
                              strides, box_sizes, element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE,
                              swizzle_of(box), CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                              CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        "rows", rows);
  return map;
}

CUtensorMap tensor_map_im2col(const Im2col& r, std::int64_t images, BoxShape box) {
  CUtensorMap map{};
  const auto channels = static_cast<cuuint64_t>(r.channels),
             wide = static_cast<cuuint64_t>(r.width), high = static_cast<cuuint64_t>(r.height);
  const cuuint64_t sizes[] = {channels, wide, high, static_cast<cuuint64_t>(images)};
  const auto pixel = static_cast<cuuint64_t>(r.pixel_stride);
  const cuuint64_t strides[] = {pixel, wide * pixel, high * wide * pixel};
  const int lower[] = {-r.pad_left, -r.pad_top};
  const int upper[] = {upper_corner(r.width, r.out_width, r.stride_x, r.pad_left),
                       upper_corner(r.height, r.out_height, r.stride_y, r.pad_top)};
  const cuuint32_t element_strides[] = {1, static_cast<cuuint32_t>(r.stride_x),
                                        static_cast<cuuint32_t>(r.stride_y), 1};
  check(Encoders::get().im2col(
            &map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 4, const_cast<void*>(r.x), sizes, strides, lower,
            upper, static_cast<cuuint32_t>(box.row_bytes), static_cast<cuuint32_t>(box.rows),
            element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(box),
            CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        "images", images);
  return map;
}

bool im2col_map_supports(const Im2col& r) {
  struct Axis {
    int size, windows, kernel, stride, dilation, pad;
  };
  for (const Axis& a :
       {Axis{r.height, r.out_height, r.kernel_height, r.stride_y, r.dilation_y, r.pad_top},
        Axis{r.width, r.out_width, r.kernel_width, r.stride_x, r.dilation_x, r.pad_left}}) {
    const int upper = upper_corner(a.size, a.windows, a.stride, a.pad);
    const int reach = (a.kernel - 1) * a.dilation;
    const bool leaves = a.pad > 0 || upper + reach > 0;
    if (a.pad > 128 || upper < -128 || upper > 127 || reach > 255 || a.stride > 8) return false;
    if (leaves && r.pad_value != 0) return false;
  }
  return true;
}

}  // namespace sluice::kernels::cuda

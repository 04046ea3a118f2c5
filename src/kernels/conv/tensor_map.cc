#include "kernels/conv/tensor_map.h"

#include <fmt/core.h>

#include "base/error.h"
#include "device/cuda/driver_function.h"

namespace sluice::kernels::cuda {
namespace {

struct Encoders {
  decltype(&cuTensorMapEncodeTiled) tiled;
  decltype(&cuTensorMapEncodeIm2col) windows;

  Encoders() {
    device::find_in_driver(tiled, "cuTensorMapEncodeTiled");
    device::find_in_driver(windows, "cuTensorMapEncodeIm2col");
  }
  static const Encoders& get() {
    static const Encoders encoders;
    return encoders;
  }
};

void check(CUresult result, const char* what, std::int64_t rows) {
  if (result != CUDA_SUCCESS)
    device::check(device::GpuLibrary::cuda, static_cast<int>(result),
                  fmt::format("map of {} of {}: error {} of the driver", rows, what,
                              static_cast<int>(result)));
}

CUtensorMapSwizzle turn_of(BoxSize box) {
  return box.wide == 64 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B;
}

// From the last pixel of an axis to where the last window begins.
int last_begin(int size, int windows, int stride, int before) {
  return (windows - 1) * stride - before - (size - 1);
}

}  // namespace

CUtensorMap map_rows(const void* x, std::int64_t rows, std::int64_t bytes, BoxSize box) {
  CUtensorMap map{};
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(bytes), static_cast<cuuint64_t>(rows)};
  const cuuint32_t of_box[] = {static_cast<cuuint32_t>(box.wide),
                               static_cast<cuuint32_t>(box.rows)};
  const cuuint32_t steps[] = {1, 1};
  check(
      Encoders::get().tiled(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, const_cast<void*>(x), sizes,
                            sizes, of_box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, turn_of(box),
                            CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
      "rows", rows);
  return map;
}

CUtensorMap map_windows(const SmallRows& r, std::int64_t images, BoxSize box) {
  CUtensorMap map{};
  const auto channels = static_cast<cuuint64_t>(r.channels), wide = static_cast<cuuint64_t>(r.wide),
             high = static_cast<cuuint64_t>(r.high);
  const cuuint64_t sizes[] = {channels, wide, high, static_cast<cuuint64_t>(images)};
  const auto pixel = static_cast<cuuint64_t>(r.pixel);
  const cuuint64_t apart[] = {pixel, wide * pixel, high * wide * pixel};
  const int first[] = {-r.left, -r.top};
  const int last[] = {last_begin(r.wide, r.out_wide, r.stride_wide, r.left),
                      last_begin(r.high, r.out_high, r.stride_high, r.top)};
  const cuuint32_t steps[] = {1, static_cast<cuuint32_t>(r.stride_wide),
                              static_cast<cuuint32_t>(r.stride_high), 1};
  check(Encoders::get().windows(
            &map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 4, const_cast<void*>(r.x), sizes, apart, first,
            last, static_cast<cuuint32_t>(box.wide), static_cast<cuuint32_t>(box.rows), steps,
            CU_TENSOR_MAP_INTERLEAVE_NONE, turn_of(box), CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        "images", images);
  return map;
}

bool windows_can_be_mapped(const SmallRows& r) {
  struct Axis {
    int size, windows, kernel, stride, dilation, before;
  };
  for (const Axis& a :
       {Axis{r.high, r.out_high, r.kernel_high, r.stride_high, r.dilation_high, r.top},
        Axis{r.wide, r.out_wide, r.kernel_wide, r.stride_wide, r.dilation_wide, r.left}}) {
    const int last = last_begin(a.size, a.windows, a.stride, a.before);
    const int reach = (a.kernel - 1) * a.dilation;
    const bool leaves = a.before > 0 || last + reach > 0;
    if (a.before > 128 || last < -128 || last > 127 || reach > 255 || a.stride > 8) return false;
    if (leaves && r.outside != 0) return false;
  }
  return true;
}

}  // namespace sluice::kernels::cuda

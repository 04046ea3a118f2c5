#include <climits>

#include "kernels/data_movement/element_width.cuh"
#include "kernels/data_movement/resize.h"

namespace sluice::kernels::cuda {
namespace {

template <class From, class To>
__global__ void __launch_bounds__(kThreads) resize_axis(const ResizeAxis call) {
  const std::int64_t i = thread_index();
  if (i >= call.outer * call.out_size * call.inner) return;
  const std::int64_t k = i % call.inner, which = i / call.inner % call.out_size;
  const From* const from = static_cast<const From*>(call.from) +
                           i / call.inner / call.out_size * call.size * call.inner + k;
  const std::int64_t first = call.first[which];
  float sum = 0;
  for (int tap = 0; tap < call.taps; ++tap) {
    const float weight = call.weights[which * call.taps + tap];
    const std::int64_t at = min(max(first + tap, std::int64_t{0}), call.size - 1);
    if (weight != 0) sum = fmaf(weight, wide(from[at * call.inner]), sum);
  }
  static_cast<To*>(call.to)[i] = narrow<To>(first == INT_MIN ? call.extrapolation_value : sum);
}

template <class From, class To>
void run(const ResizeAxis& call, const LaunchArgs& args) {
  launch(stream_of(args), grid_for(call.outer * call.out_size * call.inner), resize_axis<From, To>,
         call);
}

template <class T>
void run_with(const ResizeAxis& call, const LaunchArgs& args) {
  if (call.from_type == RealType::f32) return run<float, T>(call, args);
  if (call.to_type == RealType::f32) return run<T, float>(call, args);
  run<T, T>(call, args);
}

}  // namespace

void run_resize_axis(const ResizeAxis& call, const LaunchArgs& args) {
  const RealType narrow_one = call.from_type == RealType::f32 ? call.to_type : call.from_type;
  if (narrow_one == RealType::f32) return run<float, float>(call, args);
  if (narrow_one == RealType::f16) return run_with<__half>(call, args);
  run_with<__nv_bfloat16>(call, args);
}

}  // namespace sluice::kernels::cuda

#include "kernels/conv/pool_nd.h"
#include "kernels/data_movement/element_width.cuh"

namespace sluice::kernels::cuda {
namespace {

// The kernel positions [first, last) that are inside the input when the window begins at `start`.
struct KernelRange {
  int start, first, last, padded;  // padded: positions in the input or its padding

  __device__ KernelRange(const PoolAxis& axis, int out) {
    start = out * axis.stride - axis.before;
    first = start < 0 ? min(axis.kernel, (-start + axis.dilation - 1) / axis.dilation) : 0;
    last = positions_within(axis, axis.in - start);
    padded = positions_within(axis, axis.in + axis.after - start);
  }
  __device__ static int positions_within(const PoolAxis& axis, int size) {
    return size <= 0 ? 0 : min(axis.kernel, (size + axis.dilation - 1) / axis.dilation);
  }
  __device__ int count() const { return max(0, last - first); }
};

template <class T>
struct WindowValue {
  float value;
  std::int64_t index;

  __device__ WindowValue(const PoolNdCall& call, const T* from, const KernelRange& a,
                         const KernelRange& b, const KernelRange& c) {
    const bool is_max = call.kind == PoolNdCall::Kind::max;
    value = is_max ? -INFINITY : 0;
    index = -1;
    for (int i = a.first; i < a.last; ++i)
      for (int j = b.first; j < b.last; ++j)
        for (int k = c.first; k < c.last; ++k) {
          const std::int64_t at =
              (static_cast<std::int64_t>(a.start + i * call.axis[0].dilation) * call.axis[1].in +
               b.start + j * call.axis[1].dilation) *
                  call.axis[2].in +
              c.start + k * call.axis[2].dilation;
          const float x = wide(from[at]);
          if (is_max) {
            if (index < 0 || x > value || x != x) value = x, index = at;  // NaN propagates
          } else {
            value += call.kind == PoolNdCall::Kind::average ? x : powf(fabsf(x), call.p);
          }
        }
  }
};

__device__ std::int64_t column_major_index(const PoolNdCall& call, std::int64_t index) {
  const std::int64_t c = index % call.axis[2].in, b = index / call.axis[2].in % call.axis[1].in,
                     a = index / call.axis[2].in / call.axis[1].in;
  return a + call.axis[0].in * (b + call.axis[1].in * c);
}

template <class T>
__global__ void __launch_bounds__(kThreads) pool_nd(const PoolNdCall call) {
  const std::int64_t outs =
      static_cast<std::int64_t>(call.axis[0].out) * call.axis[1].out * call.axis[2].out;
  const std::int64_t i = thread_index();
  if (i >= call.channels * outs) return;
  const std::int64_t channel = i / outs;
  const int at = static_cast<int>(i % outs);
  const KernelRange c(call.axis[2], at % call.axis[2].out);
  const KernelRange b(call.axis[1], at / call.axis[2].out % call.axis[1].out);
  const KernelRange a(call.axis[0], at / call.axis[2].out / call.axis[1].out);
  const std::int64_t ins =
      static_cast<std::int64_t>(call.axis[0].in) * call.axis[1].in * call.axis[2].in;
  const WindowValue<T> window(call, static_cast<const T*>(call.from) + channel * ins, a, b, c);
  float value = window.value;
  if (call.kind == PoolNdCall::Kind::average) {
    const int count =
        call.counts_padding ? a.padded * b.padded * c.padded : a.count() * b.count() * c.count();
    value = count == 0 ? 0 : value / static_cast<float>(count);
  } else if (call.kind == PoolNdCall::Kind::lp) {
    value = powf(value, 1 / call.p);
  }
  static_cast<T*>(call.to)[i] = narrow<T>(value);
  if (call.indices == nullptr) return;
  std::int64_t index = window.index < 0 ? 0 : window.index;
  if (call.column_major && window.index >= 0) index = column_major_index(call, index);
  call.indices[i] = channel * ins + index;
}

template <class T>
__global__ void __launch_bounds__(kThreads) local_response_norm(const LrnCall call) {
  const std::int64_t i = thread_index();
  if (i >= call.images * call.channels * call.pixels) return;
  const T* const from = static_cast<const T*>(call.from);
  const std::int64_t c = i / call.pixels % call.channels;
  float sum = 0;
  for (std::int64_t k = max(c - call.before, std::int64_t{0});
       k <= min(c + call.after, call.channels - 1); ++k) {
    const float x = wide(from[i + (k - c) * call.pixels]);
    sum = fmaf(x, x, sum);
  }
  static_cast<T*>(call.to)[i] =
      narrow<T>(wide(from[i]) / powf(fmaf(call.alpha, sum, call.bias), call.beta));
}

template <class Body>
void with_real(RealType type, const Body& body) {
  if (type == RealType::f32) return body(float{});
  if (type == RealType::f16) return body(__half{});
  body(__nv_bfloat16{});
}

}  // namespace

void run_pool_nd(RealType type, const PoolNdCall& call, const LaunchArgs& args) {
  const std::int64_t outs =
      static_cast<std::int64_t>(call.axis[0].out) * call.axis[1].out * call.axis[2].out;
  with_real(type, [&]<class T>(T) {
    launch(stream_of(args), grid_for(call.channels * outs), pool_nd<T>, call);
  });
}

void run_lrn(RealType type, const LrnCall& call, const LaunchArgs& args) {
  with_real(type, [&]<class T>(T) {
    launch(stream_of(args), grid_for(call.images * call.channels * call.pixels),
           local_response_norm<T>, call);
  });
}

}  // namespace sluice::kernels::cuda

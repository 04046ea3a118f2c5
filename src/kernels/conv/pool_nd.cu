#include "kernels/conv/pool_nd.h"
#include "kernels/data_movement/element_width.cuh"

namespace sluice::kernels::cuda {
namespace {

// The kernel's places [first, last) that lie inside when it begins at `start`.
struct Span {
  int start, first, last, padded;  // padded: how many lie on the input or its padding

  __device__ Span(const WindowAxis& axis, int out) {
    start = out * axis.stride - axis.before;
    first = start < 0 ? min(axis.kernel, (-start + axis.dilation - 1) / axis.dilation) : 0;
    last = fitting(axis, axis.in - start);
    padded = fitting(axis, axis.in + axis.after - start);
  }
  __device__ static int fitting(const WindowAxis& axis, int room) {
    return room <= 0 ? 0 : min(axis.kernel, (room + axis.dilation - 1) / axis.dilation);
  }
  __device__ int count() const { return max(0, last - first); }
};

template <class T>
struct Seen {
  float value;
  std::int64_t place;

  __device__ Seen(const WindowCall& call, const T* from, const Span& a, const Span& b,
                  const Span& c) {
    const bool most = call.kind == WindowCall::Kind::most;
    value = most ? -INFINITY : 0;
    place = -1;
    for (int i = a.first; i < a.last; ++i)
      for (int j = b.first; j < b.last; ++j)
        for (int k = c.first; k < c.last; ++k) {
          const std::int64_t at =
              (static_cast<std::int64_t>(a.start + i * call.axis[0].dilation) * call.axis[1].in +
               b.start + j * call.axis[1].dilation) *
                  call.axis[2].in +
              c.start + k * call.axis[2].dilation;
          const float x = wide(from[at]);
          if (most) {
            if (place < 0 || x > value) value = x, place = at;
          } else {
            value += call.kind == WindowCall::Kind::average ? x : powf(fabsf(x), call.p);
          }
        }
  }
};

__device__ std::int64_t column_major(const WindowCall& call, std::int64_t place) {
  const std::int64_t c = place % call.axis[2].in, b = place / call.axis[2].in % call.axis[1].in,
                     a = place / call.axis[2].in / call.axis[1].in;
  return a + call.axis[0].in * (b + call.axis[1].in * c);
}

template <class T>
__global__ void __launch_bounds__(kThreads) window_kernel(const WindowCall call) {
  const std::int64_t outs =
      static_cast<std::int64_t>(call.axis[0].out) * call.axis[1].out * call.axis[2].out;
  const std::int64_t i = place();
  if (i >= call.channels * outs) return;
  const std::int64_t channel = i / outs;
  const int at = static_cast<int>(i % outs);
  const Span c(call.axis[2], at % call.axis[2].out);
  const Span b(call.axis[1], at / call.axis[2].out % call.axis[1].out);
  const Span a(call.axis[0], at / call.axis[2].out / call.axis[1].out);
  const std::int64_t ins =
      static_cast<std::int64_t>(call.axis[0].in) * call.axis[1].in * call.axis[2].in;
  const Seen<T> seen(call, static_cast<const T*>(call.from) + channel * ins, a, b, c);
  float value = seen.value;
  if (call.kind == WindowCall::Kind::average) {
    const int count =
        call.padding_counts ? a.padded * b.padded * c.padded : a.count() * b.count() * c.count();
    value = count == 0 ? 0 : value / static_cast<float>(count);
  } else if (call.kind == WindowCall::Kind::norm) {
    value = powf(value, 1 / call.p);
  }
  static_cast<T*>(call.to)[i] = narrow<T>(value);
  if (call.places == nullptr) return;
  std::int64_t where = seen.place < 0 ? 0 : seen.place;
  if (call.by_columns && seen.place >= 0) where = column_major(call, where);
  call.places[i] = channel * ins + where;
}

template <class T>
__global__ void __launch_bounds__(kThreads) across_kernel(const AcrossChannels call) {
  const std::int64_t i = place();
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

void run_window(RealType type, const WindowCall& call, const LaunchArgs& args) {
  const std::int64_t outs =
      static_cast<std::int64_t>(call.axis[0].out) * call.axis[1].out * call.axis[2].out;
  with_real(type, [&]<class T>(T) {
    launch(stream_of(args), grid_for(call.channels * outs), window_kernel<T>, call);
  });
}

void run_across_channels(RealType type, const AcrossChannels& call, const LaunchArgs& args) {
  with_real(type, [&]<class T>(T) {
    launch(stream_of(args), grid_for(call.images * call.channels * call.pixels), across_kernel<T>,
           call);
  });
}

}  // namespace sluice::kernels::cuda

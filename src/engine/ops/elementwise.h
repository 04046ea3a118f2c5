// Elementwise loops over one tensor, on all cores.
#pragma once

#include "engine/ops/op.h"

namespace sluice::engine {

inline constexpr std::size_t kElementGrain = 1 << 14;

// out[i] = f(in[i]), computed in Wide<T>.
template <class T, class R, class F>
void map(OpCall& call, const Tensor& in, const Tensor& out, F&& f) {
  const T* const x = as<T>(in).data();
  R* const y = as<R>(out).data();
  const auto size = static_cast<std::size_t>(in.size());
  call.workers.each(size, kElementGrain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) y[i] = static_cast<R>(f(static_cast<Wide<T>>(x[i])));
  });
}

// Sets output 0 to f of input 0, with the same type; f takes float and double.
template <class F>
void map_reals(OpCall& call, F&& f) {
  const Tensor& in = call.input(0);
  const Tensor out = call.output(0, in.dtype(), in.shape());
  visit_reals(in.dtype(), [&]<class T>() { map<T, T>(call, in, out, f); });
}

}  // namespace sluice::engine

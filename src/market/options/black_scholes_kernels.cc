// The formulas are written for one option; the compiler turns the loops into vectors, once
// for each instruction set that Highway knows, and Highway picks at run time.
#include "market/options/black_scholes_kernels.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "market/options/black_scholes_kernels.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "market/options/black_scholes_formula.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::market::HWY_NAMESPACE {

template <class T>
void price_loop(const T* const* in, T* __restrict call, T* __restrict put, std::size_t n) {
  const T *s = in[0], *k = in[1], *t = in[2], *r = in[3], *q = in[4], *v = in[5];
  for (std::size_t i = 0; i < n; ++i) {
    const auto o = formula::price<fast::HostMath, T>(s[i], k[i], t[i], r[i], q[i], v[i]);
    call[i] = o.call;
    put[i] = o.put;
  }
}

// `out` is a block of its own, row by row of `stride`, so that no output can be an input.
template <class T>
void greeks_loop(T w, const T* const* in, T* __restrict out, std::size_t stride, std::size_t n) {
  const T *s = in[0], *k = in[1], *t = in[2], *r = in[3], *q = in[4], *v = in[5];
  for (std::size_t i = 0; i < n; ++i) {
    T g[formula::kGreeks];
    formula::greeks<fast::HostMath, T>(w, s[i], k[i], t[i], r[i], q[i], v[i], g);
    for (std::size_t j = 0; j < formula::kGreeks; ++j) out[j * stride + i] = g[j];
  }
}

void price_double(const double* const* in, double* call, double* put, std::size_t n) {
  price_loop(in, call, put, n);
}
void price_float(const float* const* in, float* call, float* put, std::size_t n) {
  price_loop(in, call, put, n);
}
void greeks_double(double w, const double* const* in, double* out, std::size_t stride,
                   std::size_t n) {
  greeks_loop(w, in, out, stride, n);
}
void greeks_float(float w, const float* const* in, float* out, std::size_t stride, std::size_t n) {
  greeks_loop(w, in, out, stride, n);
}

}  // namespace sluice::market::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::market {
namespace {

HWY_EXPORT(price_double);
HWY_EXPORT(price_float);
HWY_EXPORT(greeks_double);
HWY_EXPORT(greeks_float);

void prices(const double* const* in, double* call, double* put, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(price_double)(in, call, put, n);
}
void prices(const float* const* in, float* call, float* put, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(price_float)(in, call, put, n);
}
void all_greeks(double w, const double* const* in, double* out, std::size_t stride, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(greeks_double)(w, in, out, stride, n);
}
void all_greeks(double w, const float* const* in, float* out, std::size_t stride, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(greeks_float)(static_cast<float>(w), in, out, stride, n);
}

constexpr std::size_t kBlock = 512;  // options: a block of all columns stays in the L1 cache
constexpr std::size_t kColumns = 6;

// The columns of the options from `begin` on; one value for all becomes an array.
template <class T>
class Block {
 public:
  explicit Block(const compute::Call& call) : call_(call) {
    for (std::size_t c = 0; c < kColumns; ++c)
      if (call.in[c].item_bytes == 0) std::fill_n(same_[c], kBlock, *call.input<T>(c));
  }
  const T* const* at(std::size_t begin) {
    for (std::size_t c = 0; c < kColumns; ++c)
      columns_[c] = call_.in[c].item_bytes == 0 ? same_[c] : call_.input<T>(c) + begin;
    return columns_;
  }

 private:
  const compute::Call& call_;
  alignas(64) T same_[kColumns][kBlock];
  const T* columns_[kColumns];
};

}  // namespace

template <class T>
void black_scholes_cpu(const compute::Call& call, compute::Workers& workers) {
  workers.each(call.items, 16 * kBlock, [&](std::size_t begin, std::size_t end) {
    Block<T> block(call);
    for (; begin < end; begin += kBlock)
      prices(block.at(begin), call.output<T>(0) + begin, call.output<T>(1) + begin,
             std::min(kBlock, end - begin));
  });
}

template <class T>
void greeks_cpu(const compute::Call& call, compute::Workers& workers) {
  const double w = call.with<OptionSign>().w;
  workers.each(call.items, 4 * kBlock, [&](std::size_t begin, std::size_t end) {
    Block<T> block(call);
    alignas(64) T out[static_cast<std::size_t>(formula::kGreeks) * kBlock];
    for (; begin < end; begin += kBlock) {
      const std::size_t n = std::min(kBlock, end - begin);
      all_greeks(w, block.at(begin), out, kBlock, n);
      for (std::size_t g = 0; g < formula::kGreeks; ++g)
        std::memcpy(call.output<T>(g) + begin, out + g * kBlock, n * sizeof(T));
    }
  });
}

template void black_scholes_cpu<double>(const compute::Call&, compute::Workers&);
template void black_scholes_cpu<float>(const compute::Call&, compute::Workers&);
template void greeks_cpu<double>(const compute::Call&, compute::Workers&);
template void greeks_cpu<float>(const compute::Call&, compute::Workers&);

}  // namespace sluice::market
#endif  // HWY_ONCE

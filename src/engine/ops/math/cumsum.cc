// CumSum and CumProd.
#include "engine/ops/axes.h"
#include "engine/ops/convert.h"
#include "engine/ops/families.h"

namespace sluice::engine {
namespace {

struct Plus {
  static constexpr int kStart = 0;
  static auto of(auto a, auto b) { return a + b; }
};
struct Times {
  static constexpr int kStart = 1;
  static auto of(auto a, auto b) { return a * b; }
};

template <class F, class T>
void cumulate_axis(const Shape& shape, int axis, const T* x, T* y, bool exclusive, bool reverse) {
  using S = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;
  const std::int64_t outer = shape.size(0, axis), n = shape[axis],
                     inner = shape.size(axis + 1, shape.rank());
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < inner; ++i) {
      S so_far = F::kStart;
      for (std::int64_t k = 0; k < n; ++k) {
        const std::int64_t at = (o * n + (reverse ? n - 1 - k : k)) * inner + i;
        if (exclusive) y[at] = static_cast<T>(so_far);
        so_far = F::of(so_far, static_cast<S>(x[at]));
        if (!exclusive) y[at] = static_cast<T>(so_far);
      }
    }
}

template <class F>
void cumulate(OpCall& call) {
  const Tensor& in = call.input(0);
  const int axis = resolve_axis(integer_of(call, 1), in.rank());
  call.declare_output(0, in.dtype(), in.shape());
  const Tensor wide = converted(in, wide_number(in.dtype()));
  const Tensor out(wide.dtype(), in.shape());
  if (in.size() == 0) return call.set_output(0, converted(out, in.dtype()));
  visit_wide_numbers(wide.dtype(), [&]<class T>() {
    cumulate_axis<F>(in.shape(), axis, as<T>(wide).data(), as<T>(out).data(),
                     call.attributes().flag("exclusive"), call.attributes().flag("reverse"));
  });
  call.set_output(0, converted(out, in.dtype()));
}

void cumsum(OpCall& call) { cumulate<Plus>(call); }
void cumprod(OpCall& call) { cumulate<Times>(call); }

constexpr Types kCumTypes = kReals | Types{DType::i32, DType::i64, DType::u32, DType::u64};

constexpr Op kCumsumOps[] = {
    {"CumProd", 26, kCumTypes, cumprod},
    {"CumSum", 11, kCumTypes, cumsum},
};

}  // namespace

std::span<const Op> cumsum_ops() { return kCumsumOps; }

}  // namespace sluice::engine

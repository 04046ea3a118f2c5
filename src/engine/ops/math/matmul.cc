// MatMul, Gemm, MatMulInteger and QLinearMatMul.
#include "engine/ops/math/matmul.h"

#include <cmath>

#include "engine/ops/broadcast.h"
#include "engine/ops/convert.h"
#include "engine/ops/families.h"
#include "engine/ops/math/quantize.h"
#include "kernels/gemm/gemm.h"

namespace sluice::engine {
namespace {

// Signed and unsigned GEMMs have the same bits.
template <class Body>
void visit_gemm_types(DType type, Body&& body) {
  switch (type) {
    case DType::f32: return body.template operator()<float>();
    case DType::f64: return body.template operator()<double>();
    case DType::i32:
    case DType::u32: return body.template operator()<std::uint32_t>();
    case DType::i64:
    case DType::u64: return body.template operator()<std::uint64_t>();
    default: unsupported_type(type);
  }
}

// The shapes of a batched GEMM.
struct GemmPlan {
  std::int64_t m = 1, n = 1, k = 1;
  Shape a_batch, b_batch, batch, result;

  GemmPlan(Shape a, Shape b) {
    require(a.rank() > 0 && b.rank() > 0, "a scalar is no matrix");
    const bool row = a.rank() == 1, column = b.rank() == 1;
    if (row) a.insert(0, 1);
    if (column) b.push_back(1);
    m = a[a.rank() - 2], k = a[a.rank() - 1], n = b[b.rank() - 1];
    require(b[b.rank() - 2] == k,
            "matrices of shapes " + to_string(a) + " and " + to_string(b) + " do not fit");
    a_batch = Shape(a.dims().first(static_cast<std::size_t>(a.rank() - 2)));
    b_batch = Shape(b.dims().first(static_cast<std::size_t>(b.rank() - 2)));
    batch = broadcast(a_batch, b_batch);
    result = batch;
    if (!row) result.push_back(m);
    if (!column) result.push_back(n);
    if (b_batch.size() == 1 &&
        b_batch.rank() <= a_batch.rank()) {  // one GEMM with the batch folded into the rows
      m *= a_batch.size();
      a_batch = b_batch = batch = Shape();
    }
  }
};

template <class T>
void multiply_all(compute::Workers& workers, const GemmPlan& plan, const T* a, const T* b, T* c) {
  struct Pair {
    std::int64_t a, b;
  };
  std::vector<Pair> pairs;
  const BroadcastLoop<2> loop(plan.batch, {plan.a_batch, plan.b_batch});
  loop.each_row([&](std::int64_t, const auto& at, std::int64_t count, const auto& step) {
    for (std::int64_t i = 0; i < count; ++i)
      pairs.push_back({at[0] + i * step[0], at[1] + i * step[1]});
  });
  const std::int64_t m = plan.m, n = plan.n, k = plan.k;
  const std::int64_t work = std::max<std::int64_t>(1, m * n * k);
  const auto grain = static_cast<std::size_t>(std::max<std::int64_t>(1, (1 << 15) / work));
  workers.each(pairs.size(), grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      kernels::matmul<T>(workers, m, n, k, {a + pairs[i].a * m * k, k, 1},
                         {b + pairs[i].b * k * n, n, 1}, c + static_cast<std::int64_t>(i) * m * n,
                         n);
  });
}

void matmul(OpCall& call) {
  const DType type = call.input(0).dtype();
  require(call.input(1).dtype() == type, "inputs of two element types");
  const DType wide = is_float(type) ? wide_real(type) : type;
  call.declare_output(0, type, GemmPlan(call.input(0).shape(), call.input(1).shape()).result);
  const Tensor gemm_result =
      batched_matmul(call, converted(call.input(0), wide), converted(call.input(1), wide));
  call.set_output(0, converted(gemm_result, type));
}

// A zero point or scale: per row of the left operand, per column of the right one.
Tensor by_row(const Tensor& tensor) {
  return tensor.rank() == 1 && tensor.size() > 1 ? tensor.reshaped(Shape{tensor.size(), 1})
                                                 : tensor;
}

void require_broadcasts(const Tensor& b, const Shape& shape) {
  require(b.size() == 1 || broadcast(shape, b.shape()) == shape,
          "a zero point or scale of shape " + to_string(b.shape()) + " for " + to_string(shape));
}

void check_zero(const Tensor& a, const Tensor& zero) {
  if (!zero) return;
  require(zero.dtype() == a.dtype(), "a zero point of another element type");
  require_broadcasts(zero, a.shape());
}

template <class T, class F>
Tensor combined(const Tensor& a, const Tensor& b, F&& f) {
  require_broadcasts(b, a.shape());
  const Tensor one = b.size() == 1 ? b.reshaped(Shape()) : b;
  const Tensor out(a.dtype(), a.shape());
  map2<T, T, T>(a, one, out, f);
  return out;
}

template <class T>
Tensor minus(const Tensor& a, const Tensor& zero) {
  check_zero(a, zero);
  const Tensor wide = converted(a, kDTypeOf<T>);
  if (!zero) return wide;
  return combined<T>(wide, converted(zero, kDTypeOf<T>), [](T x, T y) { return x - y; });
}

void matmul_integer(OpCall& call) {
  const Tensor &a = call.input(0), &b = call.input(1);
  const Tensor a_zero = call.has(2) ? by_row(call.input(2)) : Tensor();
  const Tensor b_zero = call.input_or_none(3);
  check_zero(a, a_zero);
  check_zero(b, b_zero);
  call.declare_output(0, DType::i32, GemmPlan(a.shape(), b.shape()).result);
  call.set_output(
      0, batched_matmul(call, minus<std::int32_t>(a, a_zero), minus<std::int32_t>(b, b_zero)));
}

// Declares the output with the input's type; other types are checked later.
void tell_qlinear(OpCall& call) {
  const Tensor &a = call.input(0), &b = call.input(3);
  check_zero(a, by_row(call.input(2)));
  check_zero(b, call.input(5));
  const Shape shape = GemmPlan(a.shape(), b.shape()).result;
  for (const std::size_t i : {1u, 6u, 7u}) require_broadcasts(by_row(call.input(i)), shape);
  require_broadcasts(call.input(4), shape);
  if (call.input(7).dtype() == a.dtype()) call.declare_output(0, a.dtype(), shape);
}

// Computes in double, which represents every int8 dot product exactly.
void qlinear_matmul(OpCall& call) {
  tell_qlinear(call);
  const auto real = [&](std::size_t i) { return converted(call.input(i), DType::f64); };
  const auto times = [](double x, double y) { return x * y; };
  Tensor gemm_result = batched_matmul(call, minus<double>(call.input(0), by_row(call.input(2))),
                                      minus<double>(call.input(3), call.input(5)));
  gemm_result = combined<double>(gemm_result, by_row(real(1)), times);
  gemm_result = combined<double>(gemm_result, real(4), times);
  gemm_result =
      combined<double>(gemm_result, by_row(real(6)), [](double x, double y) { return x / y; });
  const Tensor& zero = call.input(7);
  Tensor zeros(DType::f64, gemm_result.shape());
  std::fill(zeros.values<double>().begin(), zeros.values<double>().end(), 0.0);
  zeros = combined<double>(zeros, by_row(real(7)), [](double x, double y) { return x + y; });
  call.set_output(0, quantized(gemm_result, zeros, zero.dtype(), true));
}

// alpha * a * b + beta * c; exact for integers if both factors are 1.
template <class T>
T add_scaled(T gemm_result, T c, float alpha, float beta) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(alpha) * gemm_result + static_cast<T>(beta) * c;
  } else {
    using U = std::make_unsigned_t<T>;
    if (alpha == 1.0f && beta == 1.0f)
      return static_cast<T>(static_cast<U>(gemm_result) + static_cast<U>(c));
    return static_cast<T>(to_integer(static_cast<double>(alpha) * static_cast<double>(gemm_result) +
                                     static_cast<double>(beta) * static_cast<double>(c)));
  }
}

template <class T>
Tensor gemm_of(OpCall& call, const Tensor& a, const Tensor& b) {
  const bool flip_a = call.attributes().flag("transA"), flip_b = call.attributes().flag("transB");
  const std::int64_t m = a.shape()[flip_a ? 1 : 0], k = a.shape()[flip_a ? 0 : 1];
  const std::int64_t n = b.shape()[flip_b ? 0 : 1];
  const auto view = [](const Tensor& t, bool flip) {
    const std::int64_t width = t.shape()[1];
    return flip ? kernels::MatrixView<T>{as<T>(t).data(), 1, width}
                : kernels::MatrixView<T>{as<T>(t).data(), width, 1};
  };
  const Tensor gemm_result(a.dtype(), Shape{m, n});
  kernels::matmul<T>(call.workers, m, n, k, view(a, flip_a), view(b, flip_b),
                     as<T>(gemm_result).data(), n);
  return gemm_result;
}

// Throws if the input shapes of Gemm do not match.
void tell_gemm(OpCall& call) {
  const Tensor &a = call.input(0), &b = call.input(1), c = call.input_or_none(2);
  require(b.dtype() == a.dtype() && (!c || c.dtype() == a.dtype()), "inputs of two element types");
  require(a.rank() == 2 && b.rank() == 2, "the first two inputs must be matrices");
  const bool flip_a = call.attributes().flag("transA"), flip_b = call.attributes().flag("transB");
  require(a.shape()[flip_a ? 0 : 1] == b.shape()[flip_b ? 1 : 0],
          "matrices of shapes " + to_string(a.shape()) + " and " + to_string(b.shape()) +
              " do not fit");
  const Shape shape{a.shape()[flip_a ? 1 : 0], b.shape()[flip_b ? 0 : 1]};
  require(
      !c || broadcast(shape, c.shape()) == shape,
      "the bias of shape " + to_string(c.shape()) + " does not broadcast to " + to_string(shape));
  call.declare_output(0, a.dtype(), shape);
}

void gemm_of(OpCall& call) {
  tell_gemm(call);
  const DType type = call.input(0).dtype();
  const DType wide = is_float(type) ? wide_real(type) : type;
  const Tensor a = converted(call.input(0), wide), b = converted(call.input(1), wide);
  Tensor gemm_result;
  visit_gemm_types(wide, [&]<class T>() { gemm_result = gemm_of<T>(call, a, b); });
  const float alpha = call.attributes().real("alpha", 1), beta = call.attributes().real("beta", 1);
  if (call.has(2) || alpha != 1.0f) {
    const Tensor c =
        call.has(2) ? converted(call.input(2), wide) : converted(Tensor::of(0.0f), wide);
    const Tensor out(wide, gemm_result.shape());
    visit_types<float, double, std::int32_t, std::int64_t, std::uint32_t, std::uint64_t>(
        wide, [&]<class T>() {
          map2<T, T, T>(gemm_result, c, out,
                        [=](T x, T y) { return add_scaled(x, y, alpha, beta); });
        });
    gemm_result = out;
  }
  call.set_output(0, converted(gemm_result, type));
}

constexpr Types kProducts = kReals | Types{DType::i32, DType::i64, DType::u32, DType::u64};
constexpr Types kBytes{DType::i8, DType::u8};
constexpr Types kTinyFloats{DType::f8e4m3fn, DType::f8e4m3fnuz, DType::f8e5m2, DType::f8e5m2fnuz};

constexpr Op kMatmulOps[] = {
    {"Gemm", 1, kProducts, gemm_of},
    {"MatMul", 1, kProducts, matmul},
    {"MatMulInteger", 10, kBytes, matmul_integer},
    {"QLinearMatMul", 10, kBytes | kTinyFloats, qlinear_matmul},
};

}  // namespace

Tensor batched_matmul(OpCall& call, const Tensor& a, const Tensor& b) {
  const GemmPlan plan(a.shape(), b.shape());
  const Tensor out(a.dtype(), plan.result);
  if (out.size() == 0) return out;
  visit_gemm_types(a.dtype(), [&]<class T>() {
    multiply_all<T>(call.workers, plan, as<T>(a).data(), as<T>(b).data(), as<T>(out).data());
  });
  return out;
}

std::span<const Op> matmul_ops() { return kMatmulOps; }

}  // namespace sluice::engine

// Rows made one after the other: layer norm with a residual, and softmax.
#include <algorithm>
#include <limits>

#include "engine/cpu/kernels.h"
#include "engine/cpu/nodes.h"
#include "engine/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/norm.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "engine/cpu/functions-inl.h"
#include "engine/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::engine::cpu::HWY_NAMESPACE {

// What passes do to a vector at place i; `count` is kLanes but for the last of a row. These are
// no lambdas so that all of them are certainly inlined.
struct AddRow {
  const float *x, *residual;  // residual may be null
  float* y;                   // may be x

  HWY_INLINE V operator()(std::size_t i, std::size_t count) const {
    V sum = load(x + i, count);
    if (residual != nullptr) sum = hn::Add(sum, load(residual + i, count));
    store(sum, y + i, count);
    return sum;
  }
};

HWY_INLINE V first_lanes(V value, std::size_t count) {
  return count == kLanes ? value : hn::IfThenElseZero(hn::FirstN(kFloats, count), value);
}

struct SquareOff {
  const float* y;
  V mean;

  HWY_INLINE V operator()(std::size_t i, std::size_t count) const {
    const V off = first_lanes(hn::Sub(load(y + i, count), mean), count);
    return hn::Mul(off, off);
  }
};

struct ScaleRow {
  const float *scale, *bias;  // bias may be null
  float* y;
  V mean, by;

  HWY_INLINE void operator()(std::size_t i, std::size_t count) const {
    const V off = hn::Sub(load(y + i, count), mean);
    const V shift = bias != nullptr ? load(bias + i, count) : hn::Zero(kFloats);
    store(hn::MulAdd(off, hn::Mul(by, load(scale + i, count)), shift), y + i, count);
  }
};

struct Power {
  const float* x;
  float* y;
  V most;

  HWY_INLINE V operator()(std::size_t i, std::size_t count) const {
    const V power = first_lanes(Exp(kFloats, hn::Sub(load(x + i, count), most)), count);
    store(power, y + i, count);
    return power;
  }
};

struct Multiply {
  float* y;
  V by;

  HWY_INLINE void operator()(std::size_t i, std::size_t count) const {
    store(hn::Mul(by, load(y + i, count)), y + i, count);
  }
};

template <class Body>
HWY_INLINE void each_vector(std::size_t n, const Body& body) {
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, kLanes);
  if (i < n) body(i, n - i);
}

// Sums of two streams of vectors each, so that additions overlap. The order of additions
// depends on n alone.
template <class Of>
HWY_INLINE V sum_of(std::size_t n, const Of& of) {
  V even = hn::Zero(kFloats), odd = even;
  std::size_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    even = hn::Add(even, of(i, kLanes));
    odd = hn::Add(odd, of(i + kLanes, kLanes));
  }
  for (; i < n; i += kLanes) even = hn::Add(even, of(i, std::min(kLanes, n - i)));
  return hn::SumOfLanes(kFloats, hn::Add(even, odd));
}

HWY_INLINE void softmax_row(const float* x, float* y, std::size_t n) {
  constexpr float kLeast = -std::numeric_limits<float>::infinity();
  V most = hn::Set(kFloats, kLeast);
  for (std::size_t i = 0; i < n; i += kLanes)
    most = hn::Max(most, load(x + i, std::min(kLanes, n - i), kLeast));
  most = hn::MaxOfLanes(kFloats, most);
  const V sum = sum_of(n, Power{x, y, most});
  each_vector(n, Multiply{y, hn::Div(hn::Set(kFloats, 1.0f), sum)});
}

// Limit: three passes over each row, which stays in the L1 cache.
void norm_rows(const float* x, const float* residual, const float* scale, const float* bias,
               float* y, std::size_t rows, std::size_t n, float epsilon) {
  const V per = hn::Set(kFloats, 1.0f / static_cast<float>(n));
  for (std::size_t i = 0; i < rows; ++i, x += n, y += n) {
    const V mean = hn::Mul(per, sum_of(n, AddRow{x, residual, y}));
    const V variance = hn::Mul(per, sum_of(n, SquareOff{y, mean}));
    const V off = hn::Sqrt(hn::Add(variance, hn::Set(kFloats, epsilon)));
    each_vector(n, ScaleRow{scale, bias, y, mean, hn::Div(hn::Set(kFloats, 1.0f), off)});
    if (residual != nullptr) residual += n;
  }
}

void softmax_rows(const float* x, float* y, std::size_t rows, std::size_t n) {
  for (std::size_t i = 0; i < rows; ++i) softmax_row(x + i * n, y + i * n, n);
}

}  // namespace sluice::engine::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::engine::cpu {
namespace {

HWY_EXPORT(norm_rows);
HWY_EXPORT(softmax_rows);

constexpr std::size_t kGrain = 1 << 14;  // elements worth waking a thread for

std::size_t rows_at_once(std::size_t n) { return std::max<std::size_t>(1, kGrain / n); }

class NormKernel final : public Kernel {
 public:
  struct Inputs {
    std::size_t residual, scale, bias;
  };
  static constexpr std::size_t kNone = 1000;

  NormKernel(Context& context, const Node& node, const Inputs& inputs, std::size_t rows,
             std::size_t n)
      : workers_(context.workers),
        inputs_(inputs),
        rows_(rows),
        n_(n),
        epsilon_(node.attributes.real("epsilon", 1e-5f)),
        residual_(inputs.residual < node.inputs.size() &&
                  node.inputs[inputs.residual] != kNoValue) {}

  void run(const KernelArgs& args) const override {
    const float* const x = floats(args, 0);
    const float* const residual = floats(args, inputs_.residual);
    auto* const y = static_cast<float*>(args.outputs[0]);
    workers_.each(rows_, rows_at_once(n_), [&](std::size_t begin, std::size_t end) {
      const std::size_t at = begin * n_;
      HWY_DYNAMIC_DISPATCH(norm_rows)
      (x + at, residual != nullptr ? residual + at : nullptr, floats(args, inputs_.scale),
       floats(args, inputs_.bias), y + at, end - begin, n_, epsilon_);
    });
  }
  std::string_view what() const override {
    return residual_ ? "layer norm + residual" : "layer norm";
  }
  int in_place() const override { return 0; }

 private:
  compute::Workers& workers_;
  Inputs inputs_;
  std::size_t rows_, n_;
  float epsilon_;
  bool residual_;
};

class SoftmaxKernel final : public Kernel {
 public:
  SoftmaxKernel(Context& context, std::size_t rows, std::size_t n)
      : workers_(context.workers), rows_(rows), n_(n) {}

  void run(const KernelArgs& args) const override {
    const float* const x = floats(args, 0);
    auto* const y = static_cast<float*>(args.outputs[0]);
    workers_.each(rows_, rows_at_once(n_), [&](std::size_t begin, std::size_t end) {
      HWY_DYNAMIC_DISPATCH(softmax_rows)(x + begin * n_, y + begin * n_, end - begin, n_);
    });
  }
  std::string_view what() const override { return "softmax"; }
  int in_place() const override { return 0; }

 private:
  compute::Workers& workers_;
  std::size_t rows_, n_;
};

bool absent_or(const TensorType& type, const Shape& shape) {
  return type.dtype == DType::none || type == TensorType{DType::f32, shape};
}

std::unique_ptr<Kernel> make_norm(const Graph& graph, const Node& node, Context& context) {
  const TensorType x = input_type(graph, node, 0), residual = input_type(graph, node, 1);
  if (x.dtype != DType::f32 || x.shape.rank() == 0 || x.shape.size() == 0) return nullptr;
  const Shape last{x.shape[x.shape.rank() - 1]};
  if (!absent_or(residual, x.shape) || !absent_or(input_type(graph, node, 3), last) ||
      !(input_type(graph, node, 2) == TensorType{DType::f32, last}) || node.outputs.size() > 1)
    return nullptr;
  const auto n = static_cast<std::size_t>(last[0]);
  return std::make_unique<NormKernel>(context, node, NormKernel::Inputs{1, 2, 3},
                                      static_cast<std::size_t>(x.shape.size()) / n, n);
}

// One output, and a scale and a bias for each element of a row.
std::unique_ptr<Kernel> make_layer_norm(const Graph& graph, const Node& node, Context& context) {
  const TensorType x = input_type(graph, node, 0), scale = input_type(graph, node, 1);
  if (x.dtype != DType::f32 || x.shape.rank() == 0 || x.shape.size() == 0) return nullptr;
  for (std::size_t i = 1; i < node.outputs.size(); ++i)
    if (node.outputs[i] != kNoValue) return nullptr;
  const int axis = resolve_axis(node.attributes.integer("axis", -1), x.shape.rank());
  const Shape tail(x.shape.dims().subspan(static_cast<std::size_t>(axis)));
  if (!(scale == TensorType{DType::f32, tail}) || !absent_or(input_type(graph, node, 2), tail))
    return nullptr;
  const auto n = static_cast<std::size_t>(tail.size());
  return std::make_unique<NormKernel>(context, node, NormKernel::Inputs{NormKernel::kNone, 1, 2},
                                      static_cast<std::size_t>(x.shape.size()) / n, n);
}

// Before opset 13 all axes from `axis` on were one.
std::unique_ptr<Kernel> make_softmax(const Graph& graph, const Node& node, Context& context) {
  const TensorType x = input_type(graph, node, 0);
  const int rank = x.shape.rank();
  if (x.dtype != DType::f32 || rank == 0 || x.shape.size() == 0) return nullptr;
  const bool one_axis = node.version >= 13;
  const std::int64_t named = node.attributes.integer("axis", one_axis ? -1 : 1);
  if (named >= rank) return nullptr;
  const int axis = resolve_axis(named, rank);
  if (one_axis && x.shape.size(axis + 1, rank) != 1) return nullptr;
  return std::make_unique<SoftmaxKernel>(context, static_cast<std::size_t>(x.shape.size(0, axis)),
                                         static_cast<std::size_t>(x.shape.size(axis, rank)));
}

constexpr Maker kNormMakers[] = {
    {"Norm", kFused, make_norm},
    {"LayerNormalization", "", make_layer_norm},
    {"Softmax", "", make_softmax},
};

}  // namespace

std::span<const Maker> norm_kernels() { return kNormMakers; }

}  // namespace sluice::engine::cpu
#endif

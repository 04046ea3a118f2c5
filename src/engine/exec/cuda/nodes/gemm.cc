// Linear, MatMul and Gemm by cuBLASLt, or by cuDNN if fusing the activation there is faster. Linear
// layers of 16-bit floats on Hopper by our kernel where a row's bits must not depend on the batch.
#include <limits>

#include "engine/exec/cuda/cudnn/cudnn_fusion.h"
#include "engine/exec/cuda/nodes/cublaslt_gemm.h"
#include "engine/exec/cuda/nodes/node_view.h"
#include "engine/graph/fused_ops.h"
#include "engine/graph/graph_editor.h"
#include "kernels/gemm/epilogue_kernel.h"
#include "kernels/gemm/linear_sm90.h"
#include "kernels/gemm/pack_weights.h"
#include "tensor/byte_size.h"

namespace sluice::engine::cuda {
namespace {

// ---- Linear -------------------------------------------------------------------------------

struct LinearPlan {
  std::unique_ptr<CublasltPlan> cublaslt;
  std::unique_ptr<CudnnPlan> cudnn;  // preferred if set
  ConstMemory weight;                // transposed; null: as in the graph
  bool adds_residual = false;        // the GEMM adds the residual itself
  bool defers_bias = false;          // `epilogue` adds the bias
  bool has_epilogue = false;         // a separate kernel runs `epilogue`
  EpilogueCall epilogue;
  std::string kernel_name;
};

class Linear final : public Kernel {
 public:
  explicit Linear(LinearPlan plan) : plan_(std::move(plan)) {}

  void run(const KernelArgs& args) const override {
    const auto input = [&](std::size_t i) {
      return i < args.inputs.size() ? args.inputs[i] : nullptr;
    };
    const void* const w = plan_.weight ? plan_.weight.get() : input(1);
    auto* const stream = static_cast<CUstream_st*>(args.stream);
    void* const y = args.outputs[0];
    if (plan_.cudnn)
      plan_.cudnn->run({input(0), w, input(2), nullptr, y, args.scratch}, stream);
    else
      plan_.cublaslt->run({input(0), w, plan_.adds_residual ? input(3) : nullptr,
                           plan_.defers_bias ? nullptr : input(2), y, args.scratch},
                          stream);
    if (!plan_.has_epilogue) return;
    EpilogueCall epilogue = plan_.epilogue;
    epilogue.x = y;
    epilogue.bias = plan_.defers_bias ? input(2) : nullptr;
    epilogue.residual_after = plan_.adds_residual ? nullptr : input(3);
    enqueue_epilogue(epilogue, stream);
  }
  std::string_view name() const override { return plan_.kernel_name; }
  std::size_t scratch() const override {
    return plan_.cudnn ? plan_.cudnn->scratch() : plan_.cublaslt->scratch();
  }
  int in_place() const override { return plan_.adds_residual ? 3 : -1; }
  bool reads_constant(std::size_t input) const override { return input != 1 || !plan_.weight; }

 private:
  LinearPlan plan_;
};

CublasltGemm::Epilogue fused_epilogue(Activation activation) {
  if (activation == Activation::relu) return CublasltGemm::Epilogue::relu;
  if (activation == Activation::gelu_tanh) return CublasltGemm::Epilogue::gelu_tanh;
  return CublasltGemm::Epilogue::none;
}

// TF32 on Hopper's tensor cores needs both operands K-major.
ConstMemory transposed_weight(const Tensor& w, Context& context) {
  if (w.dtype() != DType::f32 || !context.options.tf32) return nullptr;
  return context.packed(w, "transposed of " + std::to_string(w.shape()[1]), w.bytes(),
                        [&](const void* from, void* to) {
                          enqueue_transpose(from, to, 1, w.shape()[0], w.shape()[1],
                                            bytes(w.dtype()), context.stream());
                        });
}

double epilogue_us(Context& context, EpilogueCall epilogue, DType dtype) {
  const std::size_t size = byte_size(Shape{epilogue.rows, epilogue.n}, dtype);
  epilogue.x = context.sample(2, size, dtype);
  return context.measure_us([&] { enqueue_epilogue(epilogue, context.stream()); });
}

// cuDNN with a fused activation, if that is faster than cuBLASLt and a separate epilogue.
std::unique_ptr<CudnnPlan> faster_cudnn_plan(Context& context, const CublasltGemm& of,
                                             const LinearPlan& plan) {
  if (!context.options.measure || plan.weight || of.m == 0) return nullptr;
  // Its f32 GEMMs are always rounded to TF32.
  if (of.dtype == DType::f32 && !context.options.tf32) return nullptr;
  CudnnFusion fusion{.dtype = of.dtype,
                     .x = {1, of.m, of.k},
                     .w = {1, of.k, of.n},
                     .y = {1, of.m, of.n},
                     .gemm = true,
                     .bias = of.bias,
                     .activation = plan.epilogue.activation,
                     .low = plan.epilogue.low,
                     .high = plan.epilogue.high};
  const std::string key = "cuDNN faster than cuBLASLt: " + algorithm_key(fusion, context.options);
  const AlgorithmChoice known = context.choice(key);
  if (known != nullptr && *known == "no") return nullptr;
  const Context::Mark since = context.mark();
  auto fused = plan_cudnn(context, fusion);
  if (fused && known != nullptr && *known == "yes") return fused;
  const bool yes =
      fused && fused->us() < plan.cublaslt->us() + epilogue_us(context, plan.epilogue, of.dtype);
  context.choose(key, yes ? "yes" : "no", since);
  if (fused && !yes) context.forget(fused->key());
  return yes ? std::move(fused) : nullptr;
}

// For shapes and types that cuBLASLt has no epilogue for.
void plan_without_bias(Context& context, CublasltGemm gemm, Activation activation,
                       LinearPlan& plan) {
  gemm.bias = false;
  gemm.epilogue = CublasltGemm::Epilogue::none;
  plan.epilogue.activation = activation;
  plan.defers_bias = true;
  plan.cublaslt = plan_cublaslt(context, gemm);
}

bool takes(const NodeView& view) {
  const TensorType x = view.in(0), w = view.in(1), y = view.out(0);
  return is_computed_real(x.dtype) && w.dtype == x.dtype && w.shape.rank() == 2 && w.shape[0] > 0 &&
         (!view.has(2) || view.in(2).shape.size() == w.shape[1]) &&
         (!view.has(3) || view.in(3).shape == y.shape);
}

std::string describe(const LinearPlan& plan, const CublasltGemm& gemm, Activation activation,
                     bool residual) {
  std::string name = plan.cudnn ? "cuDNN GEMM" : "cuBLASLt GEMM";
  if (gemm.bias) name += " + bias";
  const bool is_separate = plan.epilogue.activation != Activation::none && !plan.cudnn;
  if (activation != Activation::none)
    name += (is_separate ? ", then " : " + ") + std::string(to_string(activation));
  if (residual) name += plan.adds_residual ? " + residual" : ", then residual";
  return name;
}

// The Hopper kernel; null if it does not take the layer.
std::unique_ptr<Kernel> hopper_linear(const NodeView& view, Context& context) {
  const Tensor weight = view.constant(1);
  const DType type = view.in(0).dtype;
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  if (!context.has_sm90() || !weight || (type != DType::f16 && type != DType::bf16) ||
      weight.shape()[0] > kMost || weight.shape()[1] > kMost)
    return nullptr;
  LinearCall call{.type = real_type(type)};
  call.activation = activation_params_of(view.attributes()).activation;
  call.k = static_cast<int>(weight.shape()[0]);
  call.n = static_cast<int>(weight.shape()[1]);
  call.rows = view.in(0).shape.size() / call.k;
  if (!linear_sm90_supports(call)) return nullptr;
  prepare_linear_sm90();
  const ConstMemory packed = context.packed(
      weight, "n x k", packed_linear_weight_bytes(call.n, call.k), [&](const void* from, void* to) {
        enqueue_pack_linear_weights(from, to, call.n, call.k, context.stream());
      });
  call.weight = packed.get();
  call.starts_early = true;
  std::string name = "wgmma GEMM";
  if (view.has(2)) name += " + bias";
  if (call.activation != Activation::none) name += " + " + std::string(to_string(call.activation));
  if (view.has(3)) name += " + residual";
  return launched(
      std::move(name),
      [call, packed](const KernelArgs& args) {
        const auto input = [&](std::size_t i) {
          return i < args.inputs.size() ? args.inputs[i] : nullptr;
        };
        LinearCall now = call;
        now.x = input(0);
        now.bias = input(2);
        now.residual = input(3);
        now.y = args.outputs[0];
        if (args.live.capacity == call.rows) now.live_rows = args.live.count();
        enqueue_linear_sm90(now, static_cast<CUstream_st*>(args.stream));
      },
      kReadsAll & ~2u, 0, view.has(3) ? 3 : -1);
}

std::unique_ptr<Kernel> linear(const Graph& graph, const Node& node, Context& context) {
  const NodeView view(graph, node);
  if (!takes(view)) return nullptr;
  if (view.out(0).shape.size() == 0) return nothing_to_do();
  if (context.options.batch_invariant)
    if (auto kernel = hopper_linear(view, context)) return kernel;
  const TensorType x = view.in(0);
  const std::int64_t k = view.in(1).shape[0], n = view.in(1).shape[1];
  const ActivationParams activation = activation_params_of(node.attributes);
  CublasltGemm gemm{.dtype = x.dtype, .m = x.shape.size() / k, .n = n, .k = k, .bias = view.has(2)};
  gemm.epilogue = fused_epilogue(activation.activation);
  LinearPlan plan;
  plan.adds_residual = view.has(3) && activation.activation == Activation::none;
  gemm.beta = plan.adds_residual ? 1 : 0;
  plan.epilogue = {.type = real_type(x.dtype), .rows = gemm.m, .n = n};
  const bool activates = gemm.epilogue == CublasltGemm::Epilogue::none;
  if (activates) plan.epilogue.activation = activation.activation;
  plan.epilogue.low = activation.low;
  plan.epilogue.high = activation.high;
  if (const Tensor weight = view.constant(1)) plan.weight = transposed_weight(weight, context);
  gemm.transposed_b = plan.weight != nullptr;
  plan.cublaslt = plan_cublaslt(context, gemm);
  if (!plan.cublaslt) plan_without_bias(context, gemm, activation.activation, plan);
  if (!plan.cublaslt) return nullptr;
  if (plan.epilogue.activation != Activation::none && !plan.defers_bias)
    plan.cudnn = faster_cudnn_plan(context, gemm, plan);
  plan.kernel_name = describe(plan, gemm, activation.activation, view.has(3));
  if (plan.cudnn) plan.epilogue.activation = Activation::none;  // cuDNN applies it
  plan.has_epilogue = plan.defers_bias || plan.epilogue.activation != Activation::none ||
                      (view.has(3) && !plan.adds_residual);
  return std::make_unique<Linear>(std::move(plan));
}

// ---- MatMul -------------------------------------------------------------------------------

// The GEMMs of a MatMul: `one` at each set of offsets, in elements.
struct BatchedGemm {
  CublasltGemm one;
  struct Offset {
    std::int64_t a, b, d;
  };
  std::vector<Offset> offsets;
};

std::size_t alignment_of(const BatchedGemm& batched, std::size_t element) {
  std::uint64_t all = 256;
  for (const BatchedGemm::Offset& at : batched.offsets)
    for (const std::int64_t offset : {at.a, at.b, at.d})
      all |= static_cast<std::uint64_t>(offset) * element;
  return static_cast<std::size_t>(all & (~all + 1));  // the largest common power of two
}

// A batch axis: its size and its strides in a and b.
struct Axis {
  std::int64_t size, a, b;
};

std::vector<Axis> batch_axes(const Shape& a, const Shape& b, const Shape& all) {
  std::vector<Axis> axes;
  std::int64_t in_a = a.size(a.rank() - 2, a.rank()), in_b = b.size(b.rank() - 2, b.rank());
  for (int i = 0; i < all.rank() - 2; ++i) {  // the innermost first
    const int from_a = a.rank() - 3 - i, from_b = b.rank() - 3 - i;
    const std::int64_t size_a = from_a >= 0 ? a[from_a] : 1, size_b = from_b >= 0 ? b[from_b] : 1;
    axes.push_back({all[all.rank() - 3 - i], size_a == 1 ? 0 : in_a, size_b == 1 ? 0 : in_b});
    in_a *= size_a;
    in_b *= size_b;
  }
  std::erase_if(axes, [](const Axis& axis) { return axis.size == 1; });
  return axes;
}

BatchedGemm batched_gemm(const Shape& a, const Shape& b, const Shape& d, DType dtype) {
  BatchedGemm made;
  CublasltGemm& one = made.one;
  one.dtype = dtype;
  one.m = a[a.rank() - 2];
  one.k = a[a.rank() - 1];
  one.n = b[b.rank() - 1];
  made.offsets = {{0, 0, 0}};
  if (b.size() == one.k * one.n) {  // one b for all: a is a single tall matrix
    one.m = a.size() / one.k;
    return made;
  }
  std::vector<Axis> axes = batch_axes(a, b, d);
  std::size_t i = 0;
  if (!axes.empty()) {
    one.batch = axes[0].size;
    one.stride_a = axes[0].a;
    one.stride_b = axes[0].b;
    for (i = 1; i < axes.size(); ++i) {
      if (axes[i].a != one.stride_a * one.batch || axes[i].b != one.stride_b * one.batch) break;
      one.batch *= axes[i].size;
    }
  }
  one.stride_d = one.m * one.n;
  std::int64_t in_d = one.batch * one.stride_d;
  for (; i < axes.size(); in_d *= axes[i].size, ++i) {
    std::vector<BatchedGemm::Offset> more;
    for (std::int64_t k = 0; k < axes[i].size; ++k)
      for (const BatchedGemm::Offset& at : made.offsets)
        more.push_back({at.a + k * axes[i].a, at.b + k * axes[i].b, at.d + k * in_d});
    made.offsets = std::move(more);
  }
  one.alignment = alignment_of(made, bytes(dtype));
  return made;
}

std::unique_ptr<Kernel> matmul(const Graph& graph, const Node& node, Context& context) {
  constexpr std::size_t kMaxLaunches = 256;
  const NodeView view(graph, node);
  Shape a = view.in(0).shape, b = view.in(1).shape, d = view.out(0).shape;
  const DType dtype = view.in(0).dtype;
  if (view.in(1).dtype != dtype || a.rank() == 0 || b.rank() == 0) return nullptr;
  if (d.size() == 0) return nothing_to_do();
  if (b.rank() == 1) b.push_back(1), d.push_back(1);
  if (a.rank() == 1) a.insert(0, 1), d.insert(d.rank() - 1, 1);
  if (a[a.rank() - 1] == 0) return nullptr;
  const BatchedGemm batched = batched_gemm(a, b, d, dtype);
  if (batched.offsets.size() > kMaxLaunches) return nullptr;
  std::shared_ptr<const CublasltPlan> plan = plan_cublaslt(context, batched.one);
  if (!plan) return nullptr;
  const auto element = static_cast<std::int64_t>(bytes(dtype));
  const std::size_t scratch = plan->scratch();
  return launched(
      batched.one.batch > 1 ? "cuBLASLt batched GEMM" : "cuBLASLt GEMM",
      [plan, offsets = batched.offsets, element](const KernelArgs& args) {
        const auto at = [&](void* base, std::int64_t offset) {
          return static_cast<std::byte*>(base) + offset * element;
        };
        for (const BatchedGemm::Offset& offset : offsets)
          plan->run({at(args.inputs[0], offset.a), at(args.inputs[1], offset.b), nullptr, nullptr,
                     at(args.outputs[0], offset.d), args.scratch},
                    static_cast<CUstream_st*>(args.stream));
      },
      kReadsAll, scratch);
}

// ---- Gemm ---------------------------------------------------------------------------------

std::unique_ptr<Kernel> make_gemm(const Graph& graph, const Node& node, Context& context) {
  const NodeView view(graph, node);
  const TensorType a = view.in(0), d = view.out(0);
  if (view.in(1).dtype != a.dtype || a.shape.rank() != 2) return nullptr;
  if (d.shape.size() == 0) return nothing_to_do();
  CublasltGemm gemm{.dtype = a.dtype, .m = d.shape[0], .n = d.shape[1]};
  gemm.transposed_a = view.attributes().flag("transA");
  gemm.transposed_b = view.attributes().flag("transB");
  gemm.k = a.shape[gemm.transposed_a ? 0 : 1];
  gemm.alpha = view.attributes().real("alpha", 1);
  const float beta = view.attributes().real("beta", 1);
  if (gemm.k == 0) return nullptr;
  bool adds = false;
  if (view.has(2) && beta != 0) {
    const Shape c = view.in(2).shape;
    adds = c == d.shape && gemm.m > 1;
    gemm.bias = !adds && c.size() == gemm.n && c.rank() > 0 && c[c.rank() - 1] == gemm.n;
    if (!adds && (!gemm.bias || beta != 1)) return nullptr;
    gemm.beta = adds ? beta : 0;
  }
  std::shared_ptr<const CublasltPlan> plan = plan_cublaslt(context, gemm);
  if (!plan) return nullptr;
  const std::size_t scratch = plan->scratch();
  return launched(
      gemm.bias ? "cuBLASLt GEMM + bias" : "cuBLASLt GEMM",
      [plan, adds, bias = gemm.bias](const KernelArgs& args) {
        plan->run({args.inputs[0], args.inputs[1], adds ? args.inputs[2] : nullptr,
                   bias ? args.inputs[2] : nullptr, args.outputs[0], args.scratch},
                  static_cast<CUstream_st*>(args.stream));
      },
      kReadsAll, scratch);
}

}  // namespace

std::span<const Maker> gemm_kernels() {
  static constexpr Maker kGemmMakers[] = {
      {"Linear", kFused, linear},
      {"MatMul", "", matmul},
      {"Gemm", "", make_gemm},
  };
  return kGemmMakers;
}

}  // namespace sluice::engine::cuda

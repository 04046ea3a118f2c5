// Linear, MatMul and Gemm: cuBLASLt, or cuDNN where it does the activation in the same kernel
// and that is quicker.
#include "engine/exec/cuda/cudnn/cudnn_fusion.h"
#include "engine/exec/cuda/nodes/cublaslt_gemm.h"
#include "engine/exec/cuda/nodes/node_view.h"
#include "engine/graph/fused_ops.h"
#include "engine/graph/graph_editor.h"
#include "kernels/gemm/epilogue_kernel.h"
#include "kernels/gemm/pack_weights.h"
#include "tensor/byte_size.h"

namespace sluice::engine::cuda {
namespace {

// ---- Linear -------------------------------------------------------------------------------

struct LinearParts {
  std::unique_ptr<ProductPlan> product;  // one of the two
  std::unique_ptr<DnnPlan> dnn;
  ConstMemory weight;  // in another order than the graph has it; null: as it is
  bool adds = false;   // the product adds the residual itself
  bool bare = false;   // the bias is left for `rest`
  bool after = false;  // something is left for `rest`
  After rest;
  std::string what;
};

class Linear final : public Kernel {
 public:
  explicit Linear(LinearParts parts) : parts_(std::move(parts)) {}

  void run(const KernelArgs& args) const override {
    const auto input = [&](std::size_t i) {
      return i < args.inputs.size() ? args.inputs[i] : nullptr;
    };
    const void* const w = parts_.weight ? parts_.weight.get() : input(1);
    auto* const stream = static_cast<CUstream_st*>(args.stream);
    void* const y = args.outputs[0];
    if (parts_.dnn)
      parts_.dnn->run({input(0), w, input(2), nullptr, y, args.scratch}, stream);
    else
      parts_.product->run({input(0), w, parts_.adds ? input(3) : nullptr,
                           parts_.bare ? nullptr : input(2), y, args.scratch},
                          stream);
    if (!parts_.after) return;
    After rest = parts_.rest;
    rest.x = y;
    rest.bias = parts_.bare ? input(2) : nullptr;
    rest.behind = parts_.adds ? nullptr : input(3);
    enqueue(rest, stream);
  }
  std::string_view what() const override { return parts_.what; }
  std::size_t scratch() const override {
    return parts_.dnn ? parts_.dnn->scratch() : parts_.product->scratch();
  }
  int in_place() const override { return parts_.adds ? 3 : -1; }
  bool reads_constant(std::size_t input) const override { return input != 1 || !parts_.weight; }

 private:
  LinearParts parts_;
};

Product::After fused_after(Activation activation) {
  if (activation == Activation::relu) return Product::After::relu;
  if (activation == Activation::gelu_tanh) return Product::After::gelu_tanh;
  return Product::After::nothing;
}

// On Hopper's tensor cores tf32 wants both operands along k.
ConstMemory transposed_weight(const Tensor& w, Context& context) {
  if (w.dtype() != DType::f32 || !context.options.tf32) return nullptr;
  return context.packed(w, "transposed of " + std::to_string(w.shape()[1]), w.bytes(),
                        [&](const void* from, void* to) {
                          enqueue_transpose(from, to, 1, w.shape()[0], w.shape()[1],
                                            bytes(w.dtype()), context.stream());
                        });
}

double after_us(Context& context, After rest, DType dtype) {
  const std::size_t size = byte_size(Shape{rest.rows, rest.n}, dtype);
  rest.x = context.sample(2, size, dtype);
  return context.measure_us([&] { enqueue(rest, context.stream()); });
}

// With the activation in cuDNN's kernel, where that is quicker than after cuBLASLt's.
std::unique_ptr<DnnPlan> quicker(Context& context, const Product& of, const LinearParts& parts) {
  if (!context.options.measure || parts.weight || of.m == 0) return nullptr;
  // Its products of f32 are rounded to tf32 whatever is asked.
  if (of.dtype == DType::f32 && !context.options.tf32) return nullptr;
  DnnFusion fusion{.dtype = of.dtype,
                   .x = {1, of.m, of.k},
                   .w = {1, of.k, of.n},
                   .y = {1, of.m, of.n},
                   .product = true,
                   .bias = of.bias,
                   .activation = parts.rest.activation,
                   .low = parts.rest.low,
                   .high = parts.rest.high};
  const std::string name = "whether cuDNN is quicker for a " + name_of(fusion, context.options);
  const ChoiceTable::Choice known = context.choice(name);
  if (known != nullptr && *known == "no") return nullptr;
  const Context::Mark since = context.mark();
  auto plan = plan_dnn(context, fusion);
  if (plan && known != nullptr && *known == "yes") return plan;
  const bool yes =
      plan && plan->us() < parts.product->us() + after_us(context, parts.rest, of.dtype);
  context.choose(name, yes ? "yes" : "no", since);
  if (plan && !yes) context.forget(plan->name());
  return yes ? std::move(plan) : nullptr;
}

// cuBLASLt has no epilogue for some shapes and types.
void make_bare(Context& context, Product product, Activation activation, LinearParts& parts) {
  product.bias = false;
  product.after = Product::After::nothing;
  parts.rest.activation = activation;
  parts.bare = true;
  parts.product = plan_product(context, product);
}

bool takes(const Site& site) {
  const TensorType x = site.in(0), w = site.in(1), y = site.out(0);
  return is_computed_real(x.dtype) && w.dtype == x.dtype && w.shape.rank() == 2 && w.shape[0] > 0 &&
         (!site.has(2) || site.in(2).shape.size() == w.shape[1]) &&
         (!site.has(3) || site.in(3).shape == y.shape);
}

std::string describe(const LinearParts& parts, const Product& product, Activation activation,
                     bool residual) {
  std::string what = parts.dnn ? "cuDNN product" : "cuBLASLt product";
  if (product.bias) what += " + bias";
  const bool apart = parts.rest.activation != Activation::none && !parts.dnn;
  if (activation != Activation::none)
    what += (apart ? ", then " : " + ") + std::string(to_string(activation));
  if (residual) what += parts.adds ? " + residual" : ", then residual";
  return what;
}

std::unique_ptr<Kernel> linear(const Graph& graph, const Node& node, Context& context) {
  const Site site(graph, node);
  if (!takes(site)) return nullptr;
  if (site.out(0).shape.size() == 0) return nothing_to_do();
  const TensorType x = site.in(0);
  const std::int64_t k = site.in(1).shape[0], n = site.in(1).shape[1];
  const Epilogue epilogue = epilogue_of(node.attributes);
  Product product{.dtype = x.dtype, .m = x.shape.size() / k, .n = n, .k = k, .bias = site.has(2)};
  product.after = fused_after(epilogue.activation);
  LinearParts parts;
  parts.adds = site.has(3) && epilogue.activation == Activation::none;
  product.beta = parts.adds ? 1 : 0;
  parts.rest = {.type = real_type(x.dtype), .rows = product.m, .n = n};
  const bool activates = product.after == Product::After::nothing;
  if (activates) parts.rest.activation = epilogue.activation;
  parts.rest.low = epilogue.low;
  parts.rest.high = epilogue.high;
  if (const Tensor weight = site.constant(1)) parts.weight = transposed_weight(weight, context);
  product.transposed_b = parts.weight != nullptr;
  parts.product = plan_product(context, product);
  if (!parts.product) make_bare(context, product, epilogue.activation, parts);
  if (!parts.product) return nullptr;
  if (parts.rest.activation != Activation::none && !parts.bare)
    parts.dnn = quicker(context, product, parts);
  parts.what = describe(parts, product, epilogue.activation, site.has(3));
  if (parts.dnn) parts.rest.activation = Activation::none;  // it is done
  parts.after =
      parts.bare || parts.rest.activation != Activation::none || (site.has(3) && !parts.adds);
  return std::make_unique<Linear>(std::move(parts));
}

// ---- MatMul -------------------------------------------------------------------------------

// The products of a MatMul: `one` of them at each offset (in elements).
struct Batches {
  Product one;
  struct Offset {
    std::int64_t a, b, d;
  };
  std::vector<Offset> offsets;
};

std::size_t alignment_of(const Batches& batches, std::size_t element) {
  std::uint64_t all = 256;
  for (const Batches::Offset& at : batches.offsets)
    for (const std::int64_t offset : {at.a, at.b, at.d})
      all |= static_cast<std::uint64_t>(offset) * element;
  return static_cast<std::size_t>(all & (~all + 1));  // the largest power of two in all of them
}

// The axes before the last two, each with how far apart its matrices lie in a and in b.
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

Batches batches_of(const Shape& a, const Shape& b, const Shape& d, DType dtype) {
  Batches made;
  Product& one = made.one;
  one.dtype = dtype;
  one.m = a[a.rank() - 2];
  one.k = a[a.rank() - 1];
  one.n = b[b.rank() - 1];
  made.offsets = {{0, 0, 0}};
  if (b.size() == one.k * one.n) {  // the rows of all matrices as one
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
    std::vector<Batches::Offset> more;
    for (std::int64_t k = 0; k < axes[i].size; ++k)
      for (const Batches::Offset& at : made.offsets)
        more.push_back({at.a + k * axes[i].a, at.b + k * axes[i].b, at.d + k * in_d});
    made.offsets = std::move(more);
  }
  one.alignment = alignment_of(made, bytes(dtype));
  return made;
}

std::unique_ptr<Kernel> matmul(const Graph& graph, const Node& node, Context& context) {
  constexpr std::size_t kMostLaunches = 256;
  const Site site(graph, node);
  Shape a = site.in(0).shape, b = site.in(1).shape, d = site.out(0).shape;
  const DType dtype = site.in(0).dtype;
  if (site.in(1).dtype != dtype || a.rank() == 0 || b.rank() == 0) return nullptr;
  if (d.size() == 0) return nothing_to_do();
  if (b.rank() == 1) b.push_back(1), d.push_back(1);
  if (a.rank() == 1) a.insert(0, 1), d.insert(d.rank() - 1, 1);
  if (a[a.rank() - 1] == 0) return nullptr;
  const Batches batches = batches_of(a, b, d, dtype);
  if (batches.offsets.size() > kMostLaunches) return nullptr;
  std::shared_ptr<const ProductPlan> plan = plan_product(context, batches.one);
  if (!plan) return nullptr;
  const auto element = static_cast<std::int64_t>(bytes(dtype));
  const std::size_t scratch = plan->scratch();
  return launched(
      batches.one.batch > 1 ? "cuBLASLt products" : "cuBLASLt product",
      [plan, offsets = batches.offsets, element](const KernelArgs& args) {
        const auto at = [&](void* base, std::int64_t offset) {
          return static_cast<std::byte*>(base) + offset * element;
        };
        for (const Batches::Offset& offset : offsets)
          plan->run({at(args.inputs[0], offset.a), at(args.inputs[1], offset.b), nullptr, nullptr,
                     at(args.outputs[0], offset.d), args.scratch},
                    static_cast<CUstream_st*>(args.stream));
      },
      kReadsAll, scratch);
}

// ---- Gemm ---------------------------------------------------------------------------------

std::unique_ptr<Kernel> gemm(const Graph& graph, const Node& node, Context& context) {
  const Site site(graph, node);
  const TensorType a = site.in(0), d = site.out(0);
  if (site.in(1).dtype != a.dtype || a.shape.rank() != 2) return nullptr;
  if (d.shape.size() == 0) return nothing_to_do();
  Product product{.dtype = a.dtype, .m = d.shape[0], .n = d.shape[1]};
  product.transposed_a = site.attributes().flag("transA");
  product.transposed_b = site.attributes().flag("transB");
  product.k = a.shape[product.transposed_a ? 0 : 1];
  product.alpha = site.attributes().real("alpha", 1);
  const float beta = site.attributes().real("beta", 1);
  if (product.k == 0) return nullptr;
  bool adds = false;
  if (site.has(2) && beta != 0) {
    const Shape c = site.in(2).shape;
    adds = c == d.shape && product.m > 1;
    product.bias = !adds && c.size() == product.n && c.rank() > 0 && c[c.rank() - 1] == product.n;
    if (!adds && (!product.bias || beta != 1)) return nullptr;
    product.beta = adds ? beta : 0;
  }
  std::shared_ptr<const ProductPlan> plan = plan_product(context, product);
  if (!plan) return nullptr;
  const std::size_t scratch = plan->scratch();
  return launched(
      product.bias ? "cuBLASLt product + bias" : "cuBLASLt product",
      [plan, adds, bias = product.bias](const KernelArgs& args) {
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
      {"Gemm", "", gemm},
  };
  return kGemmMakers;
}

}  // namespace sluice::engine::cuda

#include "engine/cuda/dnn.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>

#include "device/stream.h"
#include "engine/cuda/dnn_library.h"

namespace sluice::engine::cuda {
namespace {

using dnn::Attribute;
using dnn::Descriptor;
using dnn::Kind;
using dnn::Thing;
using dnn::Type;

constexpr std::size_t kMostScratch = std::size_t{64} << 20;
constexpr std::size_t kMostTried = 6;
constexpr std::chrono::seconds kEnough(2);  // making one may compile it, which takes its time

enum Id : std::int64_t { kX = 1, kW, kY, kBias, kResidual, kFirstVirtual = 100 };

std::optional<dnn::DataType> type_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return dnn::DataType::f32;
    case DType::f16: return dnn::DataType::f16;
    case DType::bf16: return dnn::DataType::bf16;
    default: return std::nullopt;
  }
}

std::optional<dnn::Pointwise> mode_of(const DnnFusion& fusion) {
  switch (fusion.activation) {
    case Activation::relu: return dnn::Pointwise::relu;
    case Activation::clip:  // a bound below other than 0 is left out by some of its engines
      if (fusion.low == 0) return dnn::Pointwise::relu;
      break;
    case Activation::gelu: return dnn::Pointwise::gelu;
    case Activation::gelu_tanh: return dnn::Pointwise::gelu_tanh;
    case Activation::tanh: return dnn::Pointwise::tanh;
    case Activation::sigmoid: return dnn::Pointwise::sigmoid;
    case Activation::silu: return dnn::Pointwise::swish;
    case Activation::none:
    case Activation::hard_swish: break;
  }
  return std::nullopt;
}

std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& d) {
  if (d.size() == 3) return {d[1] * d[2], d[2], 1};
  return {d[1] * d[2] * d[3], 1, d[3] * d[1], d[1]};  // channels last
}

std::string name_of(const DnnFusion& f, const Options& options, const std::string& version) {
  return fmt::format("cuDNN {} {} {}{} x {} w {} y {} by {} {} pads {} {}{}{} {} {} {}", version,
                     f.product ? "product" : "convolution", to_string(f.dtype),
                     options.tf32 && f.dtype == DType::f32 ? "/tf32" : "", fmt::join(f.x, ","),
                     fmt::join(f.w, ","), fmt::join(f.y, ","), fmt::join(f.strides, ","),
                     fmt::join(f.dilations, ","), fmt::join(f.before, ","),
                     fmt::join(f.behind, ","), f.bias ? " bias" : "", f.residual ? " residual" : "",
                     static_cast<int>(f.activation), f.low, f.high);
}

std::size_t elements(const std::vector<std::int64_t>& dims) {
  std::int64_t all = 1;
  for (const std::int64_t size : dims) all *= size;
  return static_cast<std::size_t>(all);
}

// The operations, and the descriptors they are made of.
class Operations {
 public:
  Operations(const dnn::Library& library, const DnnFusion& fusion)
      : library_(library), fusion_(fusion), type_(*type_of(fusion.dtype)) {
    const Thing& x = tensor(kX, fusion.x);
    const Thing& w = tensor(kW, fusion.w);
    left_ = (fusion.residual ? 1 : 0) + (fusion.bias ? 1 : 0) +
            (fusion.activation != Activation::none ? 1 : 0);
    const Thing* y = &next();
    fusion.product ? product(x, w, *y) : convolution(x, w, *y);
    if (fusion.residual)
      y = &pointwise(plain(dnn::Pointwise::add), *y, &tensor(kResidual, fusion.y));
    if (fusion.bias) y = &pointwise(plain(dnn::Pointwise::add), *y, &bias());
    if (fusion.activation != Activation::none) pointwise(activation(), *y, nullptr);
    std::vector<Descriptor> all;
    for (const Thing& operation : operations_) all.push_back(operation.get());
    graph_ = &thing(Kind::operation_graph)
                  .set_list(Attribute::graph_operations, Type::descriptor, all)
                  .set(Attribute::graph_handle, Type::handle, library.handle)
                  .finish("the operations");
  }

  const Thing& graph() const noexcept { return *graph_; }

 private:
  Thing& thing(Kind kind) { return things_.emplace_back(library_, kind); }
  Thing& operation(Kind kind) { return operations_.emplace_back(library_, kind); }

  const Thing& tensor(std::int64_t id, const std::vector<std::int64_t>& dims) {
    const bool inside = id >= kFirstVirtual;
    const std::int64_t alignment = 16;
    return thing(Kind::tensor)
        .set(Attribute::tensor_data_type, Type::data_type, inside ? dnn::DataType::f32 : type_)
        .set_list(Attribute::tensor_dimensions, Type::int64, dims)
        .set_list(Attribute::tensor_strides, Type::int64, strides_of(dims))
        .set(Attribute::tensor_id, Type::int64, id)
        .set(Attribute::tensor_alignment, Type::int64, alignment)
        .set(Attribute::tensor_is_virtual, Type::boolean, inside)
        .finish("a tensor");
  }
  const Thing& bias() {
    std::vector<std::int64_t> dims(fusion_.y.size(), 1);
    const std::size_t axis = fusion_.product ? 2 : 1;
    dims[axis] = fusion_.y[axis];
    return tensor(kBias, dims);
  }
  // What the next operation writes: y after the last.
  const Thing& next() {
    return tensor(left_-- == 0 ? static_cast<std::int64_t>(kY) : virtual_++, fusion_.y);
  }

  void convolution(const Thing& x, const Thing& w, const Thing& y) {
    const std::int64_t spatial = 2;
    const float one = 1, zero = 0;
    const Thing& how =
        thing(Kind::convolution)
            .set(Attribute::convolution_compute, Type::data_type, dnn::DataType::f32)
            .set(Attribute::convolution_mode, Type::convolution_mode,
                 dnn::ConvolutionMode::cross_correlation)
            .set(Attribute::convolution_spatial_dims, Type::int64, spatial)
            .set_list(Attribute::convolution_strides, Type::int64, fusion_.strides)
            .set_list(Attribute::convolution_dilations, Type::int64, fusion_.dilations)
            .set_list(Attribute::convolution_pre_paddings, Type::int64, fusion_.before)
            .set_list(Attribute::convolution_post_paddings, Type::int64, fusion_.behind)
            .finish("a convolution");
    operation(Kind::operation_convolution)
        .set(Attribute::operation_convolution_descriptor, how)
        .set(Attribute::operation_convolution_x, x)
        .set(Attribute::operation_convolution_w, w)
        .set(Attribute::operation_convolution_y, y)
        .set(Attribute::operation_convolution_alpha, Type::real32, one)
        .set(Attribute::operation_convolution_beta, Type::real32, zero)
        .finish("a convolution's operation");
  }

  void product(const Thing& x, const Thing& w, const Thing& y) {
    const Thing& how = thing(Kind::matmul)
                           .set(Attribute::matmul_compute, Type::data_type, dnn::DataType::f32)
                           .finish("a product");
    operation(Kind::operation_matmul)
        .set(Attribute::operation_matmul_descriptor, how)
        .set(Attribute::operation_matmul_a, x)
        .set(Attribute::operation_matmul_b, w)
        .set(Attribute::operation_matmul_c, y)
        .finish("a product's operation");
  }

  Thing& started(dnn::Pointwise mode) {
    return thing(Kind::pointwise)
        .set(Attribute::pointwise_mode, Type::pointwise_mode, mode)
        .set(Attribute::pointwise_precision, Type::data_type, dnn::DataType::f32);
  }
  const Thing& plain(dnn::Pointwise mode) { return started(mode).finish("an operation"); }
  const Thing& activation() {
    Thing& made = started(*mode_of(fusion_));
    if (fusion_.activation == Activation::clip) {
      const double low = fusion_.low, high = fusion_.high;
      made.set(Attribute::pointwise_lower_clip, Type::real64, low)
          .set(Attribute::pointwise_upper_clip, Type::real64, high);
    }
    return made.finish("an activation");
  }
  const Thing& pointwise(const Thing& how, const Thing& x, const Thing* b) {
    const Thing& y = next();
    Thing& made = operation(Kind::operation_pointwise);
    made.set(Attribute::operation_pointwise_descriptor, how)
        .set(Attribute::operation_pointwise_x, x)
        .set(Attribute::operation_pointwise_y, y);
    if (b != nullptr) made.set(Attribute::operation_pointwise_b, *b);
    made.finish("an operation on elements");
    return y;
  }

  const dnn::Library& library_;
  const DnnFusion& fusion_;
  const dnn::DataType type_;
  int left_ = 0;  // operations after this one
  std::int64_t virtual_ = kFirstVirtual;
  std::deque<Thing> things_, operations_;  // they refer to each other: none moves
  const Thing* graph_ = nullptr;
};

// Engines that a heuristic proposes, the best first.
std::vector<Thing> proposals(const dnn::Library& library, const Thing& graph,
                             dnn::HeuristicsMode mode) {
  Thing heuristics(library, Kind::heuristics);
  heuristics.set(Attribute::heuristics_graph, graph)
      .set(Attribute::heuristics_mode, Type::heuristics_mode, mode)
      .finish("the search for engines");
  std::vector<Thing> configs;
  std::vector<Descriptor> raw;
  const std::size_t count = heuristics.count(Attribute::heuristics_results, Type::descriptor);
  for (std::size_t i = 0; i < count; ++i) {
    configs.emplace_back(library, Kind::engine_config);
    raw.push_back(configs.back().get());
  }
  std::int64_t found = 0;
  if (count > 0)
    library.check(
        library.get_attribute(heuristics.get(), Attribute::heuristics_results, Type::descriptor,
                              static_cast<std::int64_t>(count), &found, raw.data()),
        "the engines found");
  while (configs.size() > static_cast<std::size_t>(found)) configs.pop_back();
  return configs;
}

// Whether an engine computes as we promise: the same each time, and f32 in full unless told.
bool keeps_promises(const dnn::Library& library, const Thing& config, bool full_f32) {
  const Thing engine(library, Kind::engine);
  Descriptor raw = engine.get();
  std::int64_t count = 0;
  library.check(library.get_attribute(config.get(), Attribute::engine_config_engine,
                                      Type::descriptor, 1, &count, &raw),
                "an engine");
  for (const dnn::Note note :
       engine.list<dnn::Note>(Attribute::engine_numerical_note, Type::numerical_note, 16)) {
    if (note == dnn::Note::strict_nan) continue;
    const bool narrow = note == dnn::Note::tensor_core || note == dnn::Note::down_convert_inputs;
    if (!narrow || full_f32) return false;
  }
  return true;
}

}  // namespace

struct DnnPlan::Impl {
  Impl(Context& context, const DnnFusion& of, dnn::Library& from)
      : fusion(of), library(from), operations(from, fusion) {
    choose(context);
  }

  struct Made {
    Thing config, plan;
    std::size_t scratch;
  };

  // Null where this engine cannot, or asks for too much.
  std::unique_ptr<Made> make(Thing config) const try {
    Thing plan(library, Kind::execution_plan);
    plan.set(Attribute::plan_handle, Type::handle, library.handle)
        .set(Attribute::plan_engine_config, config)
        .finish("a plan");
    const auto bytes = plan.list<std::int64_t>(Attribute::plan_workspace, Type::int64, 1);
    const auto scratch = static_cast<std::size_t>(bytes.at(0));
    if (scratch > kMostScratch) return nullptr;
    return std::make_unique<Made>(Made{std::move(config), std::move(plan), scratch});
  } catch (const Error& error) {
    if (error.code() != Code::unavailable) throw;
    return nullptr;
  }

  void choose(Context& context);
  bool try_all(Context& context, std::vector<Thing> configs, std::size_t first);
  Places samples(Context& context) const;
  void run(const Places& at, const Made& made, CUstream_st* stream) const;

  const DnnFusion fusion;
  dnn::Library& library;
  const Operations operations;
  std::unique_ptr<Made> best;
  std::size_t best_index = 0;
  double us = 0;
};

// What is kept is which proposal it was, and its nanoseconds.
void DnnPlan::Impl::choose(Context& context) {
  const std::string name = name_of(fusion, context.options, library.version);
  std::vector<Thing> usual = proposals(library, operations.graph(), dnn::HeuristicsMode::a);
  if (const std::string* const known = context.choice(name)) {
    const std::size_t index = std::strtoull(known->c_str(), nullptr, 10);
    const std::size_t space = known->find(' ');
    if (index < usual.size()) best = make(std::move(usual[index]));
    if (best && space != std::string::npos)
      us = std::strtod(known->c_str() + space, nullptr) / 1000;
    if (best) return;
    usual = proposals(library, operations.graph(), dnn::HeuristicsMode::a);
  }
  const std::size_t count = usual.size();
  if (!try_all(context, std::move(usual), 0) &&
      !try_all(context, proposals(library, operations.graph(), dnn::HeuristicsMode::fallback),
               count))
    throw Error(Code::unavailable, "cuDNN has no engine for " + name);
  context.choose(name, fmt::format("{} {:.0f}", best_index, us * 1000));
}

bool DnnPlan::Impl::try_all(Context& context, std::vector<Thing> configs, std::size_t first) {
  const bool full = fusion.dtype == DType::f32 && !context.options.tf32;
  std::size_t tried = 0;
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < configs.size() && tried < kMostTried; ++i) try {
      if (best && std::chrono::steady_clock::now() - start > kEnough) break;
      if (!keeps_promises(library, configs[i], full)) continue;
      std::unique_ptr<Made> made = make(std::move(configs[i]));
      if (!made) continue;
      ++tried;
      double took = 0;
      if (context.options.measure) {
        const Places at = samples(context);
        took = context.measure_us([&] { run(at, *made, context.stream()); });
      }
      if (best && took >= us) continue;
      best = std::move(made);
      best_index = first + i;
      us = took;
      if (!context.options.measure) break;
    } catch (const Error& error) {  // proposed, and yet it cannot
      if (error.code() == Code::exhausted) throw;
    }
  return best != nullptr;
}

DnnPlan::Places DnnPlan::Impl::samples(Context& context) const {
  const auto sample = [&](std::size_t slot, std::size_t count) {
    return context.sample(slot, count * bytes(fusion.dtype), fusion.dtype);
  };
  Places at{};
  at.x = sample(0, elements(fusion.x));
  at.w = sample(1, elements(fusion.w));
  at.y = sample(2, elements(fusion.y));
  if (fusion.residual) at.residual = sample(3, elements(fusion.y));
  if (fusion.bias) at.bias = sample(4, static_cast<std::size_t>(fusion.y[fusion.product ? 2 : 1]));
  at.scratch = context.sample(5, kMostScratch, DType::u8);
  return at;
}

void DnnPlan::Impl::run(const Places& at, const Made& made, CUstream_st* stream) const {
  std::vector<std::int64_t> ids{kX, kW, kY};
  std::vector<const void*> places{at.x, at.w, at.y};
  if (fusion.bias) ids.push_back(kBias), places.push_back(at.bias);
  if (fusion.residual) ids.push_back(kResidual), places.push_back(at.residual);
  Thing pack(library, Kind::variant_pack);
  pack.set_list(Attribute::pack_ids, Type::int64, ids)
      .set_list(Attribute::pack_pointers, Type::pointer, places)
      .set(Attribute::pack_workspace, Type::pointer, at.scratch)
      .finish("the addresses");
  const Lock lock(library.running);
  library.check(library.set_stream(library.handle, stream), "a stream");
  library.check(library.execute(library.handle, made.plan.get(), pack.get()), "a run");
}

DnnPlan::DnnPlan(Context& context, const DnnFusion& fusion) {
  if (!type_of(fusion.dtype) || (fusion.activation != Activation::none && !mode_of(fusion)))
    throw Error(Code::unavailable, "cuDNN does not know this type or activation");
  auto& library = context.part<dnn::Library>();
  if (library.handle == nullptr) throw Error(Code::unavailable, library.why_not);
  const device::DeviceScope on({context.options.device});
  impl_ = std::make_unique<Impl>(context, fusion, library);
}

DnnPlan::~DnnPlan() = default;

std::size_t DnnPlan::scratch() const noexcept { return impl_->best->scratch; }
double DnnPlan::us() const noexcept { return impl_->us; }

void DnnPlan::run(const Places& at, CUstream_st* stream) const {
  impl_->run(at, *impl_->best, stream);
}

std::unique_ptr<DnnPlan> plan_dnn(Context& context, const DnnFusion& fusion) try {
  return std::make_unique<DnnPlan>(context, fusion);
} catch (const Error& error) {
  if (error.code() != Code::unavailable) throw;
  return nullptr;
}

}  // namespace sluice::engine::cuda

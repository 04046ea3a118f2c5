#include "engine/exec/cuda/cudnn/cudnn_fusion.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>

#include "device/cuda/stream.h"
#include "engine/exec/cuda/cudnn/cudnn_engine.h"
#include "engine/exec/cuda/cudnn/cudnn_operations.h"
#include "tensor/byte_size.h"

namespace sluice::engine::cuda {
namespace {

using dnn::Attribute;
using dnn::Kind;
using dnn::Thing;
using dnn::Type;

constexpr std::size_t kMostScratch = std::size_t{64} << 20;
constexpr std::size_t kMostTried = 6;
constexpr std::chrono::seconds kEnough(2);  // making one may compile it, which takes its time
constexpr std::string_view kNone = "none";  // no engine can do it

std::size_t elements(const std::vector<std::int64_t>& dims) {
  std::int64_t all = 1;
  for (const std::int64_t size : dims) all *= size;
  return static_cast<std::size_t>(all);
}

}  // namespace

std::string name_of(const DnnFusion& f, const Options& options) {
  return fmt::format("{} {}{} x {} w {} y {} by {} {} pads {} {}{}{} {} {} {}",
                     f.product ? "product" : "convolution", to_string(f.dtype),
                     options.tf32 && f.dtype == DType::f32 ? "/tf32" : "", fmt::join(f.x, ","),
                     fmt::join(f.w, ","), fmt::join(f.y, ","), fmt::join(f.strides, ","),
                     fmt::join(f.dilations, ","), fmt::join(f.before, ","),
                     fmt::join(f.behind, ","), f.bias ? " bias" : "", f.residual ? " residual" : "",
                     static_cast<int>(f.activation), f.low, f.high);
}

struct DnnPlan::Impl {
  Impl(Context& context, const DnnFusion& of, dnn::Library& from)
      : fusion(of),
        library(from),
        name("cuDNN " + library.version + " " + name_of(fusion, context.options)) {
    const ChoiceTable::Choice known = context.choice(name);
    if (known != nullptr && *known == kNone) refuse();
    library.start();
    if (known == nullptr || !take(*known)) choose(context);
  }

  [[noreturn]] void refuse() const {
    throw Error(Code::unavailable, "cuDNN has no engine for " + name);
  }

  const Thing& graph() {
    if (!operations) operations.emplace(library, fusion);
    return operations->graph();
  }
  bool take(const std::string& choice);
  void choose(Context& context);
  std::vector<Thing> proposed(dnn::HeuristicsMode mode);
  bool try_all(Context& context, std::vector<Thing> configs);
  Places samples(Context& context) const;
  // With a handle that nobody else uses meanwhile, on the stream that it has.
  void run(const Places& at, const dnn::Engine& engine, dnn::Handle handle) const;

  const DnnFusion fusion;
  dnn::Library& library;
  const std::string name;  // of the choice
  std::optional<dnn::Operations> operations;
  std::optional<dnn::Engine> best;
  double us = 0;
  bool doubtful = false;  // a way failed for the moment
};

// "1200 28 4=2": its nanoseconds, and the engine.
bool DnnPlan::Impl::take(const std::string& choice) try {
  char* end = nullptr;
  us = std::strtod(choice.c_str(), &end) / 1000;
  if (end == choice.c_str() || *end != ' ') return false;
  const auto text =
      std::string_view(choice).substr(static_cast<std::size_t>(end + 1 - choice.c_str()));
  best = dnn::read_engine(
      library, text, [this]() -> const Thing& { return graph(); }, kMostScratch);
  return best.has_value();
} catch (const Error& error) {
  (void)Context::pass_over(error);  // it is found anew
  return false;
}

void DnnPlan::Impl::choose(Context& context) {
  const Context::Mark since = context.mark();
  if (!try_all(context, proposed(dnn::HeuristicsMode::a)) &&
      !try_all(context, proposed(dnn::HeuristicsMode::fallback))) {
    if (doubtful) context.disturb();  // there may be one the next time
    context.choose(name, std::string(kNone), since);
    refuse();
  }
  context.choose(
      name, fmt::format("{:.0f} {}", us * 1000, dnn::written(library, *best, kMostScratch)), since);
}

// None where cuDNN does not take such operations.
std::vector<Thing> DnnPlan::Impl::proposed(dnn::HeuristicsMode mode) try {
  return dnn::proposals(library, graph(), mode);
} catch (const Error& error) {
  doubtful |= Context::pass_over(error);
  return {};
}

bool DnnPlan::Impl::try_all(Context& context, std::vector<Thing> configs) {
  const bool full = fusion.dtype == DType::f32 && !context.options.tf32;
  std::size_t tried = 0;
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < configs.size() && tried < kMostTried; ++i) try {
      if (best && std::chrono::steady_clock::now() - start > kEnough) break;
      if (!keeps_promises(library, configs[i], full)) continue;
      std::optional<dnn::Engine> made =
          dnn::make_engine(library, std::move(configs[i]), kMostScratch);
      if (!made) continue;
      ++tried;
      double took = 0;
      if (context.options.measure) {
        const Places at = samples(context);
        library.check(library.set_stream(library.builder, context.stream()), "a stream");
        took = context.measure_us([&] { run(at, *made, library.builder); });
      }
      if (best && took >= us) continue;
      best = std::move(made);
      us = took;
      if (!context.options.measure) break;
    } catch (const Error& error) {  // proposed, and yet it cannot
      doubtful |= Context::pass_over(error);
    }
  return best.has_value();
}

DnnPlan::Places DnnPlan::Impl::samples(Context& context) const {
  const auto sample = [&](std::size_t slot, std::size_t count) {
    const Shape all{static_cast<std::int64_t>(count)};
    return context.sample(slot, byte_size(all, fusion.dtype), fusion.dtype);
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

void DnnPlan::Impl::run(const Places& at, const dnn::Engine& engine, dnn::Handle handle) const {
  std::vector<std::int64_t> ids{dnn::kX, dnn::kW, dnn::kY};
  std::vector<const void*> places{at.x, at.w, at.y};
  if (fusion.bias) ids.push_back(dnn::kBias), places.push_back(at.bias);
  if (fusion.residual) ids.push_back(dnn::kResidual), places.push_back(at.residual);
  Thing pack(library, Kind::variant_pack);
  pack.set_list(Attribute::pack_ids, Type::int64, ids)
      .set_list(Attribute::pack_pointers, Type::pointer, places)
      .set(Attribute::pack_workspace, Type::pointer, at.scratch)
      .finish("the addresses");
  library.check(library.execute(handle, engine.plan.get(), pack.get()), "a run");
}

DnnPlan::DnnPlan(Context& context, const DnnFusion& fusion) {
  if (!dnn::knows(fusion))
    throw Error(Code::unavailable, "cuDNN does not know this type or activation");
  auto& library = context.part<dnn::Library>();
  const device::DeviceScope on({context.options.device});
  impl_ = std::make_unique<Impl>(context, fusion, library);
}

DnnPlan::~DnnPlan() = default;

std::size_t DnnPlan::scratch() const noexcept { return impl_->best->scratch; }
double DnnPlan::us() const noexcept { return impl_->us; }
const std::string& DnnPlan::name() const noexcept { return impl_->name; }

void DnnPlan::run(const Places& at, CUstream_st* stream) const {
  dnn::Library& library = impl_->library;
  const Lock lock(library.running);
  library.run_on(stream);
  impl_->run(at, *impl_->best, library.runner);
}

std::unique_ptr<DnnPlan> plan_dnn(Context& context, const DnnFusion& fusion) try {
  return std::make_unique<DnnPlan>(context, fusion);
} catch (const Error& error) {
  if (Context::pass_over(error)) context.disturb();
  return nullptr;
}

}  // namespace sluice::engine::cuda

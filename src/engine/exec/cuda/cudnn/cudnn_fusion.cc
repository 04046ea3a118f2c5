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

using cudnn::BackendDescriptor;

constexpr std::size_t kMaxWorkspace = std::size_t{64} << 20;
constexpr std::size_t kMaxTried = 6;
constexpr std::chrono::seconds kMaxTime(2);  // finalizing an engine may compile it
constexpr std::string_view kNone = "none";   // no engine supports it

std::size_t elements(const std::vector<std::int64_t>& dims) {
  std::int64_t all = 1;
  for (const std::int64_t size : dims) all *= size;
  return static_cast<std::size_t>(all);
}

}  // namespace

struct CudnnPlan::Impl {
  Impl(Context& context, const CudnnFusion& of, cudnn::Library& from)
      : fusion(of),
        library(from),
        key("cuDNN " + library.version + " " + algorithm_key(fusion, context.options)) {
    const AlgorithmChoice known = context.choice(key);
    if (known != nullptr && *known == kNone) throw_unsupported();
    library.start();
    if (known == nullptr || !restore(*known)) choose(context);
  }

  [[noreturn]] void throw_unsupported() const {
    throw Error(Code::unavailable, "cuDNN has no engine for " + key);
  }

  const BackendDescriptor& graph() {
    if (!operations) operations.emplace(library, fusion);
    return operations->graph();
  }
  bool restore(const std::string& choice);
  void choose(Context& context);
  std::vector<BackendDescriptor> candidates(cudnnBackendHeurMode_t mode);
  bool try_all(Context& context, std::vector<BackendDescriptor> configs);
  Pointers samples(Context& context) const;
  // Runs on the handle's stream. The caller has exclusive use of the handle.
  void run(const Pointers& at, const cudnn::Engine& engine, cudnnHandle_t handle) const;

  const CudnnFusion fusion;
  cudnn::Library& library;
  const std::string key;  // of the choice
  std::optional<cudnn::Operations> operations;
  std::optional<cudnn::Engine> best;
  double us = 0;
  bool had_transient_failure = false;
};

// "1200 28 4=2": the time in nanoseconds and the engine.
bool CudnnPlan::Impl::restore(const std::string& choice) try {
  char* end = nullptr;
  us = std::strtod(choice.c_str(), &end) / 1000;
  if (end == choice.c_str() || *end != ' ') return false;
  const auto text =
      std::string_view(choice).substr(static_cast<std::size_t>(end + 1 - choice.c_str()));
  best = cudnn::read_engine(
      library, text, [this]() -> const BackendDescriptor& { return graph(); }, kMaxWorkspace);
  return best.has_value();
} catch (const Error& error) {
  (void)Context::skip_algorithm(error);  // it is chosen again
  return false;
}

void CudnnPlan::Impl::choose(Context& context) {
  const Context::Mark since = context.mark();
  if (!try_all(context, candidates(CUDNN_HEUR_MODE_A)) &&
      !try_all(context, candidates(CUDNN_HEUR_MODE_FALLBACK))) {
    if (had_transient_failure) context.disturb();  // an engine may work the next time
    context.choose(key, std::string(kNone), since);
    throw_unsupported();
  }
  context.choose(
      key, fmt::format("{:.0f} {}", us * 1000, cudnn::serialize(library, *best, kMaxWorkspace)),
      since);
}

// Empty if cuDNN does not support the operation graph.
std::vector<BackendDescriptor> CudnnPlan::Impl::candidates(cudnnBackendHeurMode_t mode) try {
  return cudnn::engine_configs(library, graph(), mode);
} catch (const Error& error) {
  had_transient_failure |= Context::skip_algorithm(error);
  return {};
}

bool CudnnPlan::Impl::try_all(Context& context, std::vector<BackendDescriptor> configs) {
  const bool full = fusion.dtype == DType::f32 && !context.options.tf32;
  std::size_t tried = 0;
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < configs.size() && tried < kMaxTried; ++i) try {
      if (best && std::chrono::steady_clock::now() - start > kMaxTime) break;
      if (!is_acceptable(library, configs[i], full)) continue;
      std::optional<cudnn::Engine> made =
          cudnn::make_engine(library, std::move(configs[i]), kMaxWorkspace);
      if (!made) continue;
      ++tried;
      double took = 0;
      if (context.options.measure) {
        const Pointers at = samples(context);
        library.check(library.set_stream(library.builder, context.stream()), "a stream");
        took = context.measure_us([&] { run(at, *made, library.builder); });
      }
      if (best && took >= us) continue;
      best = std::move(made);
      us = took;
      if (!context.options.measure) break;
    } catch (const Error& error) {  // returned by the heuristic, but not supported
      had_transient_failure |= Context::skip_algorithm(error);
    }
  return best.has_value();
}

CudnnPlan::Pointers CudnnPlan::Impl::samples(Context& context) const {
  const auto sample = [&](std::size_t slot, std::size_t count) {
    const Shape all{static_cast<std::int64_t>(count)};
    return context.sample(slot, byte_size(all, fusion.dtype), fusion.dtype);
  };
  Pointers at{};
  at.x = sample(0, elements(fusion.x));
  at.w = sample(1, elements(fusion.w));
  at.y = sample(2, elements(fusion.y));
  if (fusion.residual) at.residual = sample(3, elements(fusion.y));
  if (fusion.bias) at.bias = sample(4, static_cast<std::size_t>(fusion.y[fusion.gemm ? 2 : 1]));
  at.scratch = context.sample(5, kMaxWorkspace, DType::u8);
  return at;
}

void CudnnPlan::Impl::run(const Pointers& at, const cudnn::Engine& engine,
                          cudnnHandle_t handle) const {
  std::vector<std::int64_t> ids{cudnn::kX, cudnn::kW, cudnn::kY};
  std::vector<const void*> pointers{at.x, at.w, at.y};
  if (fusion.bias) ids.push_back(cudnn::kBias), pointers.push_back(at.bias);
  if (fusion.residual) ids.push_back(cudnn::kResidual), pointers.push_back(at.residual);
  BackendDescriptor pack(library, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set_list(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids)
      .set_list(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers)
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, at.scratch)
      .finish("the addresses");
  library.check(library.execute(handle, engine.plan.get(), pack.get()), "a run");
}

CudnnPlan::CudnnPlan(Context& context, const CudnnFusion& fusion) {
  if (!cudnn::supports(fusion))
    throw Error(Code::unavailable, "cuDNN does not support this type or activation");
  auto& library = context.part<cudnn::Library>();
  const device::DeviceScope on({context.options.device});
  impl_ = std::make_unique<Impl>(context, fusion, library);
}

CudnnPlan::~CudnnPlan() = default;

std::size_t CudnnPlan::scratch() const noexcept { return impl_->best->scratch; }
double CudnnPlan::us() const noexcept { return impl_->us; }
const std::string& CudnnPlan::key() const noexcept { return impl_->key; }

void CudnnPlan::run(const Pointers& at, CUstream_st* stream) const {
  cudnn::Library& library = impl_->library;
  const Lock lock(library.running);
  library.run_on(stream);
  impl_->run(at, *impl_->best, library.runner);
}

std::string cudnn_version(Context& context) { return context.part<cudnn::Library>().version; }

std::unique_ptr<CudnnPlan> plan_cudnn(Context& context, const CudnnFusion& fusion) try {
  return std::make_unique<CudnnPlan>(context, fusion);
} catch (const Error& error) {
  if (Context::skip_algorithm(error)) context.disturb();
  return nullptr;
}

}  // namespace sluice::engine::cuda

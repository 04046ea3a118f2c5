#include "engine/session/session.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "engine/exec/cpu/cpu_program.h"
#include "engine/ops/interpreter.h"
#include "engine/passes/constant_folding.h"
#include "engine/passes/passes.h"
#include "engine/precision/narrowing.h"
#include "engine/session/gpu_failover.h"
#include "engine/session/unpad.h"
#include "engine/shapes/batch_axis.h"
#include "engine/shapes/specialize.h"

namespace sluice::engine {
namespace {

InputTypes inputs_of(const Graph& special) {
  InputTypes types;
  for (const ValueId id : special.inputs) types.push_back(type_of(special[id]));
  return types;
}

std::vector<Tensor> tensors_of(std::span<const Datum> data) {
  std::vector<Tensor> tensors;
  for (const Datum& datum : data) tensors.push_back(datum.tensor);
  return tensors;
}

std::vector<Datum> run_program(const Program& program, std::span<const Datum> inputs) {
  std::vector<Datum> results;
  for (Tensor& result : program.run(tensors_of(inputs))) results.emplace_back(std::move(result));
  return results;
}

// Maximum bytes of constants that constant folding adds.
double max_folded_bytes(const SessionOptions& options) {
  constexpr double kMaxFolded = 1e9;
  return options.memory > 0 ? std::min(kMaxFolded, static_cast<double>(options.memory))
                            : kMaxFolded;
}

constexpr std::size_t kIndependenceCheckBytes = 64u << 20;  // bytes

// The session's Gpu owns the context from here on, and may replace it.
SessionOptions without_context(SessionOptions options) {
  options.gpu.reset();
  return options;
}

struct CpuFallback {  // thrown if a healthy GPU cannot run a call
  Fallback reason;
  std::string why;
};

}  // namespace

struct Session::Impl {
  Impl(Graph of, compute::Workers& on, std::unique_ptr<Gpu> gpu, const SessionOptions& with)
      : graph(fold_moves(std::move(of), on, max_folded_bytes(with))),
        derived(graph),
        narrowing(graph, derived, on, {with.precision, with.max_loss}),
        options(without_context(with)),
        memory(with.memory > 0 ? limited_memory(with.memory) : nullptr),
        workers(on),
        interpreter(graph, on, with.nodes),
        context(std::make_shared<cpu::Context>(on)),
        failover(std::move(gpu), with.gpu_return, with.veto),
        skipper(with.skip_padding, [this](auto types) { return find_mask(types); }) {}

  PaddingMask find_mask(std::span<const TensorType> inputs);
  const Graph* planned_for(std::span<const TensorType> inputs) const;
  bool is_good(const std::optional<PrecisionReport>& report) const;
  void add_unused(std::vector<Graph>& shapes) const;
  Compiled make(std::span<const TensorType> inputs, std::span<const Datum> sample, bool on_gpu);
  Compiled compiled(Programs& programs, std::span<const TensorType> inputs,
                    std::span<const Datum> sample, bool on_gpu);
  Compiled compiled_now(std::span<const TensorType> inputs, std::span<const Datum> sample);
  std::optional<std::vector<Datum>> varlen_inputs(std::span<const Datum> inputs);
  Ready ready(std::span<const Tensor> inputs);

  std::vector<Datum> run(std::span<const Datum> inputs);
  std::optional<std::vector<Datum>> run_on_gpu(std::span<const Datum> inputs,
                                               const InputTypes& types);
  std::vector<Datum> run_at(Programs& programs, std::span<const Datum> inputs,
                            const InputTypes& types, bool on_gpu);
  std::vector<Datum> run_once(Programs& programs, std::span<const Datum> inputs, bool on_gpu);
  bool can_split_batch(Programs::Entry& entry, const BatchInputs& batch);
  bool falls_back_to_cpu(const Error& error, const GpuFailover::Generation& generation,
                         std::span<const TensorType> types);
  void note_fallback(Fallback reason, const std::string& why);

  const Graph graph;
  DerivedConstants derived;  // constants that passes computed
  Narrowing narrowing;
  std::vector<Graph> planned{};  // for the GPU if there is one; constant once runs begin
  const SessionOptions options;
  const std::shared_ptr<memory::Allocator> memory;  // none: the system's
  compute::Workers& workers;
  const Interpreter interpreter;
  const std::shared_ptr<cpu::Context> context;
  Programs programs;  // of the CPU
  GpuFailover failover;
  compute::Fallbacks fallbacks;
  PaddingSkipper skipper;
};

// ---- compilation ----------------------------------------------------------------------------

const Graph* Session::Impl::planned_for(std::span<const TensorType> inputs) const {
  for (const Graph& special : planned) {
    const InputTypes types = inputs_of(special);
    if (std::equal(types.begin(), types.end(), inputs.begin(), inputs.end())) return &special;
  }
  return nullptr;
}

// Adds the planned graphs that were not used yet, up to the maximum number of programs.
void Session::Impl::add_unused(std::vector<Graph>& shapes) const {
  const std::size_t used = shapes.size();
  for (const Graph& special : planned) {
    const bool known =
        std::any_of(shapes.begin(), shapes.begin() + static_cast<std::ptrdiff_t>(used),
                    [&](const Graph& other) { return inputs_of(other) == inputs_of(special); });
    if (!known && shapes.size() < Programs::kMaxPrograms) shapes.push_back(special);
  }
}

PaddingMask Session::Impl::find_mask(std::span<const TensorType> inputs) {
  SkipPadding found;
  Graph special = specialize(graph, inputs, workers);
  optimize(special, &derived, Backend::cpu, &found);
  return found.mask;
}

// Whether a planned graph loses no more than is allowed here.
bool Session::Impl::is_good(const std::optional<PrecisionReport>& report) const {
  const double allowed = NarrowingOptions{options.precision, options.max_loss}.allowed();
  return std::isinf(allowed) || (report && report->good_for(allowed));
}

// `sample`: inputs to measure with, or none.
Session::Compiled Session::Impl::make(std::span<const TensorType> inputs,
                                      std::span<const Datum> sample, bool on_gpu) {
  const auto program = [&](Graph special) -> std::shared_ptr<const Program> {
    if (on_gpu) return failover.gpu()->compile(std::move(special), context);
    return std::make_shared<const CpuProgram>(std::move(special), context);
  };
  try {
    const bool is_session_device = on_gpu == (failover.gpu() != nullptr);
    const bool narrow = on_gpu && options.precision != DType::f32;
    const auto known = narrow ? narrowing.report(inputs) : std::nullopt;
    const bool usable = is_session_device && (!narrow || is_good(known));
    if (const Graph* const special = usable ? planned_for(inputs) : nullptr)
      return {program(*special), "", {}, known};
    const std::size_t own = graph.inputs.size();
    const bool packed =
        inputs.size() == own + VarlenBatch::kInputs && inputs[own].shape.rank() == 2;
    const std::span<const TensorType> base = packed ? inputs.first(own) : inputs;
    const std::optional<PaddingMask> mask = packed ? skipper.known(base) : std::nullopt;
    SkipPadding skip{.tokens = packed ? inputs[own].shape[1] : 0, .proved = mask.has_value()};
    Graph made = specialize(graph, base, workers);
    std::vector<PassReport> passes =
        optimize(made, &derived, on_gpu ? Backend::cuda : Backend::cpu, packed ? &skip : nullptr);
    if (mask && *mask != skip.mask) throw Error(Code::unavailable, "another mask is found here");
    const InputTypes taken = inputs_of(made);
    require(std::equal(taken.begin(), taken.end(), inputs.begin(), inputs.end()),
            "input types that do not match a varlen batch");
    if (!narrow) return {program(std::move(made)), "", std::move(passes)};
    Narrowing::Made as = narrowing.make({made, inputs, tensors_of(sample)}, program);
    return {std::move(as.program), "", std::move(passes), std::move(as.report)};
  } catch (const Error& error) {
    // The interpreter finds an error of the caller again, and reports it.
    if (error.code() != Code::unavailable && error.code() != Code::invalid_argument) throw;
    return {nullptr, std::string(error.reason())};
  }
}

Session::Compiled Session::Impl::compiled(Programs& within, std::span<const TensorType> inputs,
                                          std::span<const Datum> sample, bool on_gpu) {
  if (!options.compile) return {nullptr, "compiling is switched off"};
  const std::shared_ptr<Programs::Entry> entry = within.at(inputs);
  const Lock lock(entry->making);
  if (!entry->made) {
    entry->result = make(inputs, sample, on_gpu);
    if (entry->result.program) within.add(*entry, entry->result.program);
  }
  entry->made = true;
  return entry->result;
}

Session::Compiled Session::Impl::compiled_now(std::span<const TensorType> inputs,
                                              std::span<const Datum> sample) {
  if (const auto generation = failover.acquire(inputs)) try {
      if (Compiled made = compiled(generation->programs, inputs, sample, true); made.program)
        return made;
    } catch (const Error& error) {
      if (!falls_back_to_cpu(error, *generation, inputs)) throw;
    }
  return compiled(programs, inputs, sample, false);
}

// The inputs without padding; none if the call runs as it is.
std::optional<std::vector<Datum>> Session::Impl::varlen_inputs(std::span<const Datum> inputs) {
  const std::optional<VarlenBatch> varlen = skipper.varlen_batch(inputs);
  if (!varlen) return std::nullopt;
  std::vector<Datum> all(inputs.begin(), inputs.end());
  all.insert(all.end(), varlen->inputs.begin(), varlen->inputs.end());
  return all;
}

Session::Ready Session::Impl::ready(std::span<const Tensor> inputs) {
  require(inputs.size() == graph.inputs.size(),
          "the model has " + std::to_string(graph.inputs.size()) + " inputs, not " +
              std::to_string(inputs.size()));
  const std::vector<Datum> data(inputs.begin(), inputs.end());
  if (const auto all = varlen_inputs(data)) {
    Ready made{.compiled = compiled_now(*types_of(*all), *all), .inputs = tensors_of(*all)};
    if (made.compiled.program) return made;
    skipper.set_why_not(made.compiled.why_not);
  }
  return {.compiled = compiled_now(*types_of(data), data), .inputs = tensors_of(data)};
}

// ---- execution ------------------------------------------------------------------------------

std::vector<Datum> Session::Impl::run_once(Programs& within, std::span<const Datum> inputs,
                                           bool on_gpu) {
  if (const auto all = varlen_inputs(inputs)) {
    const Compiled made = compiled(within, *types_of(*all), *all, on_gpu);
    if (made.program) return run_program(*made.program, *all);
    skipper.set_why_not(made.why_not);
  }
  const Compiled made = compiled(within, *types_of(inputs), inputs, on_gpu);
  if (made.program) return run_program(*made.program, inputs);
  if (on_gpu) throw CpuFallback{Fallback::unsupported, made.why_not};
  return interpreter.run(inputs);
}

bool Session::Impl::can_split_batch(Programs::Entry& entry, const BatchInputs& batch) {
  const Lock lock(entry.making);
  if (entry.independent) return *entry.independent;
  std::optional<TensorMemory> limit;  // a separate one, since the session's is used up
  if (memory) limit.emplace(limited_memory(std::max(options.memory, kIndependenceCheckBytes)));
  entry.independent = batch_is_independent(graph, entry.types, batch, workers);
  return *entry.independent;
}

// Runs the whole batch, or parts of it if memory is insufficient.
std::vector<Datum> Session::Impl::run_at(Programs& within, std::span<const Datum> inputs,
                                         const InputTypes& types, bool on_gpu) {
  const std::shared_ptr<Programs::Entry> entry = within.at(types);
  const auto named = batch_inputs_of(graph, types);
  const BatchInputs batch = named.value_or(BatchInputs{{}, 1});
  const auto now = [&] {
    return failover.gpu() != nullptr ? failover.gpu()->now() : Steady::now();
  };
  const std::int64_t chunk = entry->fit.begin(batch.count, now());
  if (chunk == 0 && on_gpu)
    throw CpuFallback{Fallback::out_of_memory, "not even one batch item fitted a moment ago"};
  try {
    SplitResult made = run_split(
        inputs, batch, chunk > 0 ? chunk : batch.count,
        {.run = [&](std::span<const Datum> some) { return run_once(within, some, on_gpu); },
         .trim = [&] { return within.trim(); },
         .may_split = [&] { return named && can_split_batch(*entry, batch); }});
    if (made.chunk < batch.count)
      entry->fit.limit(made.chunk, now());
    else
      entry->fit.reset();
    return std::move(made.results);
  } catch (const Error& error) {
    if (error.code() == Code::exhausted) entry->fit.limit(0, now());
    throw;
  }
}

void Session::Impl::note_fallback(Fallback reason, const std::string& why) {
  fallbacks.note(reason, why, failover.gpu()->now());
}

// Whether the CPU has to run the call that failed.
bool Session::Impl::falls_back_to_cpu(const Error& error, const GpuFailover::Generation& generation,
                                      std::span<const TensorType> types) {
  if (error.code() == Code::invalid_argument || error.code() == Code::not_found) return false;
  const device::GpuStatus status = device::gpu_status_of(error);
  const std::string why(error.reason());
  if (status == device::GpuStatus::lost) failover.failed(generation, types, why);
  if (status == device::GpuStatus::transient) failover.failed_transiently(generation, types, why);
  return true;
}

// None if the CPU has to run the call.
std::optional<std::vector<Datum>> Session::Impl::run_on_gpu(std::span<const Datum> inputs,
                                                            const InputTypes& types) {
  if (failover.gpu() == nullptr) return std::nullopt;
  const std::shared_ptr<GpuFailover::Generation> generation = failover.acquire(types);
  if (!generation) {
    note_fallback(failover.vetoed() ? Fallback::vetoed : Fallback::lost, failover.why_not());
    return std::nullopt;
  }
  try {
    std::vector<Datum> results = run_at(generation->programs, inputs, types, true);
    failover.succeeded(types);
    return results;
  } catch (const CpuFallback& call) {
    note_fallback(call.reason, call.why);
    return std::nullopt;
  } catch (const Error& error) {
    if (!falls_back_to_cpu(error, *generation, types)) throw;
    note_fallback(compute::fallback_of(device::gpu_status_of(error)), std::string(error.reason()));
    return std::nullopt;
  }
}

std::vector<Datum> Session::Impl::run(std::span<const Datum> inputs) {
  const std::optional<InputTypes> types = types_of(inputs);
  if (!types || types->size() != graph.inputs.size()) return interpreter.run(inputs);
  if (auto results = run_on_gpu(inputs, *types)) return std::move(*results);
  return run_at(programs, inputs, *types, false);
}

// ---- the session ----------------------------------------------------------------------------

Session::Session(Graph graph, compute::Workers& workers, std::unique_ptr<Gpu> gpu,
                 SessionOptions options)
    : impl_(std::make_unique<Impl>(std::move(graph), workers, std::move(gpu), options)) {}

Session::Session(Graph graph, compute::Workers& workers, SessionOptions options)
    : Session(std::move(graph), workers, options.gpu ? make_cuda_gpu(options.gpu) : nullptr,
              options) {}

Session::Session(Plan plan, compute::Workers& workers, SessionOptions options)
    : Session(std::move(plan), workers, options.gpu ? make_cuda_gpu(options.gpu) : nullptr,
              options) {}

Session::Session(Plan plan, compute::Workers& workers, std::unique_ptr<Gpu> gpu,
                 SessionOptions options)
    : Session(std::move(plan.graph), workers, std::move(gpu), options) {
  impl_->planned = std::move(plan.shapes);
  const std::size_t own = impl_->graph.inputs.size();
  for (const Graph& special : impl_->planned) {
    const InputTypes types = inputs_of(special);
    if (const auto mask = mask_of_varlen(special, own))
      impl_->skipper.known(std::span(types).first(own), *mask);
  }
  for (cpu::Context::Packed& packed : plan.packed) impl_->context->restore(std::move(packed));
  if (impl_->failover.gpu() != nullptr)
    impl_->failover.gpu()->restore_choices(std::move(plan.choices));
  impl_->narrowing.restore(std::move(plan.precision));
}

Session::~Session() = default;

const Graph& Session::graph() const noexcept { return impl_->graph; }

Session::Compiled Session::compiled(std::span<const TensorType> inputs) const {
  std::optional<TensorMemory> limit;
  if (impl_->memory) limit.emplace(impl_->memory);
  return impl_->compiled_now(inputs, {});
}

Session::Ready Session::ready(std::span<const Tensor> inputs) const {
  std::optional<TensorMemory> limit;
  if (impl_->memory) limit.emplace(impl_->memory);
  return impl_->ready(inputs);
}

std::string Session::padding_kept() const { return impl_->skipper.why_not(); }
std::string Session::gpu_failure() const { return impl_->failover.why_not(); }
FallbackCounts Session::fallbacks() const { return impl_->fallbacks.counts(); }

Plan Session::plan(PlanKey key) const {
  const std::shared_ptr<GpuFailover::Generation> generation = impl_->failover.current();
  const bool on_gpu = impl_->failover.gpu() != nullptr;
  Plan plan{.key = std::move(key),
            .graph = graph(),
            .shapes = {},
            .packed = impl_->context->all_packed()};
  if (generation || !on_gpu)
    plan.shapes = (on_gpu ? generation->programs : impl_->programs).graphs();
  impl_->add_unused(plan.shapes);
  if (on_gpu) plan.choices = impl_->failover.gpu()->choices();
  plan.precision = impl_->narrowing.reports();
  return plan;
}

std::vector<Datum> Session::run(std::span<const Datum> inputs) const {
  std::optional<TensorMemory> limit;
  if (impl_->memory) limit.emplace(impl_->memory);
  return impl_->run(inputs);
}

}  // namespace sluice::engine

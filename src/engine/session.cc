#include "engine/session.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <optional>

#include "engine/fold.h"
#include "engine/interpreter.h"
#include "engine/passes/passes.h"

namespace sluice::engine {
namespace {

constexpr std::size_t kMostPrograms = 16;  // shapes kept at once; the longest unused goes

using InputTypes = std::vector<TensorType>;

// None where a value is no tensor.
std::optional<InputTypes> types_of(std::span<const Datum> inputs) {
  InputTypes types;
  for (const Datum& input : inputs) {
    if (input.kind != Datum::Kind::tensor) return std::nullopt;
    types.push_back({input.tensor.dtype(), input.tensor.shape()});
  }
  return types;
}

// Programs by the types of their inputs. Made once, while others who ask for the same wait.
class Programs {
 public:
  struct Entry {
    explicit Entry(std::span<const TensorType> key) : types(key.begin(), key.end()) {}
    const InputTypes types;
    Mutex making;
    bool made GUARDED_BY(making) = false;
    Session::Compiled result GUARDED_BY(making);
  };

  std::shared_ptr<Entry> at(std::span<const TensorType> types) {
    const Lock lock(mutex_);
    const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) {
      return std::equal(entry->types.begin(), entry->types.end(), types.begin(), types.end());
    });
    if (found != entries_.end()) {
      entries_.splice(entries_.begin(), entries_, found);
    } else {
      entries_.push_front(std::make_shared<Entry>(types));
      if (entries_.size() > kMostPrograms) entries_.pop_back();
    }
    return entries_.front();
  }

  std::vector<Graph> graphs() {
    std::vector<std::shared_ptr<Entry>> entries;
    {
      const Lock lock(mutex_);
      entries.assign(entries_.begin(), entries_.end());
    }
    std::vector<Graph> graphs;
    for (const auto& entry : entries) {
      const Lock lock(entry->making);
      if (entry->result.program) graphs.push_back(entry->result.program->graph());
    }
    return graphs;
  }

 private:
  Mutex mutex_;
  std::list<std::shared_ptr<Entry>> entries_ GUARDED_BY(mutex_);  // the last used first
};

}  // namespace

struct Session::Impl {
  Impl(Graph of, compute::Workers& on, const SessionOptions& with)
      : graph(fold_moves(std::move(of), on)),
        derived(graph),
        options(with),
        memory(with.memory > 0 ? limited_memory(with.memory) : nullptr),
        workers(on),
        interpreter(graph, on),
        context(std::make_shared<cpu::Context>(on)) {}

  const Graph* planned_for(std::span<const TensorType> inputs) const {
    for (const Graph& special : planned) {
      const bool fits = std::equal(
          special.inputs.begin(), special.inputs.end(), inputs.begin(), inputs.end(),
          [&](ValueId id, const TensorType& type) { return type_of(special[id]) == type; });
      if (fits) return &special;
    }
    return nullptr;
  }

  Compiled make(std::span<const TensorType> inputs, bool on_gpu) {
    try {
      const Graph* const special = on_gpu ? nullptr : planned_for(inputs);
      if (special != nullptr) return {std::make_shared<const CpuProgram>(*special, context), ""};
      Graph made = specialize(graph, inputs, workers);
      optimize(made, &derived);
      if (!on_gpu) return {std::make_shared<const CpuProgram>(std::move(made), context), ""};
      if (options.precision != DType::f32) {
        Editor edit(made);
        to_precision(edit, options.precision);
        edit.finish();
      }
      return {make_cuda_program(std::move(made), options.gpu, context), ""};
    } catch (const Error& error) {
      // A mistake of the caller's will be found again, and told, by the run node by node.
      if (error.code() != Code::unavailable && error.code() != Code::invalid_argument) throw;
      return {nullptr, std::string(error.reason())};
    }
  }

  Compiled compiled(std::span<const TensorType> inputs, bool on_gpu) {
    if (!options.compile) return {nullptr, "compiling is switched off"};
    const std::shared_ptr<Programs::Entry> entry = (on_gpu ? gpu_programs : programs).at(inputs);
    const Lock lock(entry->making);
    if (!entry->made) entry->result = make(inputs, on_gpu);
    entry->made = true;
    return entry->result;
  }

  bool gpu_works() {
    const Lock lock(mutex);
    return options.gpu && gpu_failure.empty();
  }

  std::vector<Datum> run(std::span<const Datum> inputs);
  std::optional<std::vector<Datum>> run_on_gpu(std::span<const Datum> inputs,
                                               const InputTypes& types);
  std::vector<Datum> run_in_halves(std::span<const Datum> inputs, std::int64_t batch);
  std::int64_t batch_of(const InputTypes& types) const;

  const Graph graph;
  Derived derived;               // what passes made of its constants
  std::vector<Graph> planned{};  // not changed once runs begin
  const SessionOptions options;
  const std::shared_ptr<memory::Allocator> memory;  // none: the system's
  compute::Workers& workers;
  const Interpreter interpreter;
  const std::shared_ptr<cpu::Context> context;
  Programs programs, gpu_programs;
  Mutex mutex;
  std::string gpu_failure GUARDED_BY(mutex);
};

namespace {

std::vector<Datum> run_program(const Program& program, std::span<const Datum> inputs) {
  std::vector<Tensor> tensors;
  for (const Datum& input : inputs) tensors.push_back(input.tensor);
  std::vector<Datum> results;
  for (Tensor& result : program.run(tensors)) results.emplace_back(std::move(result));
  return results;
}

// Rows [from, to) of a tensor.
Tensor rows(const Tensor& all, std::int64_t from, std::int64_t to) {
  Shape shape = all.shape();
  shape[0] = to - from;
  const std::size_t row = all.bytes() / static_cast<std::size_t>(all.shape()[0]);
  auto* const at = static_cast<std::byte*>(all.data()) + row * static_cast<std::size_t>(from);
  return Tensor::view(all.dtype(), shape, at, std::make_shared<Tensor>(all));
}

Tensor joined(const Tensor& first, const Tensor& second) {
  Shape shape = first.shape();
  shape[0] += second.shape()[0];
  const Tensor all(first.dtype(), shape);
  std::memcpy(all.data(), first.data(), first.bytes());
  std::memcpy(static_cast<std::byte*>(all.data()) + first.bytes(), second.data(), second.bytes());
  return all;
}

}  // namespace

// The size of the first dimension, where the model says by one name that all its inputs and
// outputs share it; 0 otherwise.
std::int64_t Session::Impl::batch_of(const InputTypes& types) const {
  const auto symbol = [&](ValueId id) -> std::string {
    const auto& dims = graph[id].dims;
    return dims && !dims->empty() ? dims->front().symbol : "";
  };
  const std::string name = graph.inputs.empty() ? "" : symbol(graph.inputs[0]);
  if (name.empty()) return 0;
  for (const auto* ends : {&graph.inputs, &graph.outputs})
    for (const ValueId id : *ends)
      if (symbol(id) != name) return 0;
  return types[0].shape[0];
}

std::vector<Datum> Session::Impl::run_in_halves(std::span<const Datum> inputs, std::int64_t batch) {
  std::vector<Datum> first, second;
  for (const Datum& input : inputs) {
    first.emplace_back(rows(input.tensor, 0, batch / 2));
    second.emplace_back(rows(input.tensor, batch / 2, batch));
  }
  std::vector<Datum> results = run(first);
  const std::vector<Datum> rest = run(second);
  for (std::size_t i = 0; i < results.size(); ++i)
    results[i] = joined(results[i].tensor, rest[i].tensor);
  return results;
}

// None: the CPU must.
std::optional<std::vector<Datum>> Session::Impl::run_on_gpu(std::span<const Datum> inputs,
                                                            const InputTypes& types) {
  try {
    const Compiled made = compiled(types, true);
    if (!made.program) return std::nullopt;
    return run_program(*made.program, inputs);
  } catch (const Error& error) {
    if (error.code() == Code::exhausted) {
      const std::int64_t batch = batch_of(types);
      if (batch > 1) return run_in_halves(inputs, batch);
      return std::nullopt;
    }
    if (error.code() != Code::internal) throw;
    const Lock lock(mutex);
    gpu_failure = std::string(error.reason());
    return std::nullopt;
  }
}

std::vector<Datum> Session::Impl::run(std::span<const Datum> inputs) {
  const std::optional<InputTypes> types = types_of(inputs);
  if (!types || types->size() != graph.inputs.size()) return interpreter.run(inputs);
  if (gpu_works())
    if (auto results = run_on_gpu(inputs, *types)) return std::move(*results);
  const Compiled made = compiled(*types, false);
  return made.program ? run_program(*made.program, inputs) : interpreter.run(inputs);
}

Session::Session(Graph graph, compute::Workers& workers, SessionOptions options)
    : impl_(std::make_unique<Impl>(std::move(graph), workers, options)) {}

Session::Session(Plan plan, compute::Workers& workers, SessionOptions options)
    : Session(std::move(plan.graph), workers, options) {
  impl_->planned = std::move(plan.shapes);
  for (cpu::Context::Packed& packed : plan.packed) impl_->context->bring(std::move(packed));
}

Session::~Session() = default;

const Graph& Session::graph() const noexcept { return impl_->graph; }

Session::Compiled Session::compiled(std::span<const TensorType> inputs) const {
  return impl_->compiled(inputs, impl_->gpu_works());
}

std::string Session::gpu_failure() const {
  const Lock lock(impl_->mutex);
  return impl_->gpu_failure;
}

Plan Session::plan(PlanKey key) const {
  return {std::move(key), graph(), impl_->programs.graphs(), impl_->context->all_packed()};
}

std::vector<Datum> Session::run(std::span<const Datum> inputs) const {
  std::optional<TensorMemory> limit;
  if (impl_->memory) limit.emplace(impl_->memory);
  return impl_->run(inputs);
}

}  // namespace sluice::engine

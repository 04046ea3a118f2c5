#include "engine/inspect.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "engine/exec/cpu/cpu_program.h"
#include "engine/exec/cuda/cuda_program.h"
#include "engine/ops/op.h"
#include "engine/passes/constant_folding.h"
#include "engine/shapes/flops.h"
#include "engine/shapes/specialize.h"

namespace sluice::engine {
namespace {

using Key = std::pair<std::string, std::string>;  // domain and operator

void count_nodes(const Graph& graph, std::map<Key, OperatorUse>& uses) {
  for (const Node& node : graph.nodes) {
    OperatorUse& use = uses[{node.domain, node.op}];
    use.op = node.op;
    use.domain = node.domain;
    ++use.nodes;
    use.supported = use.supported && find_op(node) != nullptr;
    for (const auto& [name, body] : node.subgraphs) count_nodes(*body, uses);
  }
}

void count_parameters(const Graph& graph, std::map<DType, ParameterUse>& uses) {
  for (const Value& value : graph.values) {
    if (!value.constant) continue;
    ParameterUse& use = uses[value.constant.dtype()];
    use.dtype = value.constant.dtype();
    ++use.tensors;
    use.elements += static_cast<std::size_t>(value.constant.size());
    use.bytes += value.constant.bytes();
  }
  for (const Node& node : graph.nodes)
    for (const auto& [name, body] : node.subgraphs) {
      Graph own = *body;  // captured values are counted in the outer graph
      for (const Graph::Captured& captured : own.captured) own[captured.inner].constant = {};
      count_parameters(own, uses);
    }
}

struct Target {
  compute::Workers& workers;
  const std::shared_ptr<cuda::Context>& cuda;  // none: the CPU
  DType precision;
};

CompiledUse compile(const Graph& graph, std::span<const TensorType> inputs, const Target& target,
                    std::map<Key, OperatorUse>& operators) {
  CompiledUse use;
  use.inputs.assign(inputs.begin(), inputs.end());
  Graph special = specialize(fold_moves(graph, target.workers), inputs, target.workers);
  for (const Node& node : special.nodes) {
    const double count = flops(special, node);
    operators[{node.domain, node.op}].flops += count;
    use.flops += count;
  }
  use.passes = optimize(special, nullptr, target.cuda ? Backend::cuda : Backend::cpu);
  const auto host = std::make_shared<cpu::Context>(target.workers);
  if (target.cuda && target.precision != DType::f32) {
    GraphEditor edit(special);
    to_precision(edit, target.precision);
    edit.finish();
  }
  if (target.cuda)
    static_cast<ProgramUse&>(use) =
        use_of(*make_cuda_program(std::move(special), target.cuda, host));
  else
    static_cast<ProgramUse&>(use) = use_of(CpuProgram(std::move(special), host));
  return use;
}

// Bytes of constants that nodes read, directly or packed by their kernel.
std::size_t constant_bytes(const Graph& graph) {
  std::set<const void*> seen;
  std::size_t bytes = 0;
  for (const Node& node : graph.nodes)
    for (const ValueId id : node.inputs) {
      if (id == kNoValue || !graph[id].constant) continue;
      if (seen.insert(graph[id].constant.data()).second) bytes += graph[id].constant.bytes();
    }
  return bytes;
}

template <class Map, class Less>
auto sorted(const Map& map, Less&& less) {
  std::vector<typename Map::mapped_type> list;
  for (const auto& [key, value] : map) list.push_back(value);
  std::ranges::stable_sort(list, less);
  return list;
}

}  // namespace

double ProgramUse::arena_overhead() const {
  return min_arena == 0 ? 1 : static_cast<double>(arena) / static_cast<double>(min_arena);
}

ProgramUse use_of(const Program& program) {
  const Schedule& schedule = program.schedule();
  ProgramUse use{.nodes = schedule.steps.size(),
                 .weights = constant_bytes(program.graph()),
                 .unshared = schedule.unshared,
                 .arena = schedule.arena,
                 .min_arena = schedule.peak_live,
                 .placements = {}};
  std::set<std::string> on_host;
  const auto* const gpu = dynamic_cast<const CudaProgram*>(&program);
  if (gpu != nullptr) {
    const CudaReport report = gpu->report();
    use.weights = report.constants;
    for (const CudaReport::Host& node : report.on_host) {
      on_host.insert(node.node);
      use.copied += node.bytes;
    }
  }
  for (const ScheduleStep& step : schedule.steps) {
    const bool on_gpu = gpu != nullptr && !on_host.contains(describe(*step.node));
    use.placements.push_back({step.node->name, step.node->op, on_gpu ? "cuda" : "cpu",
                              std::string(step.kernel->name()),
                              flops(program.graph(), *step.node)});
  }
  return use;
}

Inspection inspect(const Graph& graph, std::span<const TensorType> inputs,
                   compute::Workers& workers, const std::shared_ptr<cuda::Context>& cuda,
                   DType precision) {
  Inspection result;
  std::map<Key, OperatorUse> operators;
  std::map<DType, ParameterUse> parameters;
  count_nodes(graph, operators);
  count_parameters(graph, parameters);
  for (const auto& [key, use] : operators) result.nodes += static_cast<std::size_t>(use.nodes);
  try {
    result.compiled = compile(graph, inputs, {workers, cuda, precision}, operators);
  } catch (const Error& error) {
    if (error.code() != Code::unavailable && error.code() != Code::invalid_argument) throw;
    result.why_not = std::string(error.reason());
  }
  result.operators = sorted(
      operators, [](const OperatorUse& a, const OperatorUse& b) { return a.nodes > b.nodes; });
  result.parameters = sorted(
      parameters, [](const ParameterUse& a, const ParameterUse& b) { return a.bytes > b.bytes; });
  return result;
}

}  // namespace sluice::engine

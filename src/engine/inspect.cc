#include "engine/inspect.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "engine/flops.h"

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
    for (const auto& [name, body] : node.bodies) count_nodes(*body, uses);
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
    for (const auto& [name, body] : node.bodies) {
      Graph own = *body;  // what it takes from around it is counted there
      for (const Graph::Captured& captured : own.captured) own[captured.here].constant = {};
      count_parameters(own, uses);
    }
}

struct Compiler {
  compute::Workers& workers;
  std::shared_ptr<cuda::Context> cuda;  // none: for the CPU

  std::unique_ptr<Program> operator()(Graph graph, std::set<std::string>& on_host) const {
    auto host = std::make_shared<cpu::Context>(workers);
    if (!cuda) return std::make_unique<CpuProgram>(std::move(graph), std::move(host));
    auto program = make_cuda_program(std::move(graph), cuda, std::move(host));
    for (const CudaReport::Host& node : program->report().on_host) on_host.insert(node.node);
    return program;
  }
};

CompiledUse compile(const Graph& graph, std::span<const TensorType> inputs,
                    const Compiler& compiler, std::map<Key, OperatorUse>& operators) {
  CompiledUse use;
  use.inputs.assign(inputs.begin(), inputs.end());
  Graph special = specialize(graph, inputs, compiler.workers);
  for (const Node& node : special.nodes) {
    const double count = flops(special, node);
    operators[{node.domain, node.op}].flops += count;
    use.flops += count;
  }
  use.passes = optimize(special);
  std::set<std::string> on_host;
  const std::unique_ptr<Program> program = compiler(std::move(special), on_host);
  use.nodes = program->schedule().steps.size();
  use.unshared = program->schedule().unshared;
  use.arena = program->schedule().arena;
  use.least = program->schedule().least;
  for (const Step& step : program->schedule().steps) {
    const bool here = !compiler.cuda || on_host.contains(describe(*step.node));
    use.places.push_back({step.node->name, step.node->op, here ? "cpu" : "cuda",
                          std::string(step.kernel->what()), flops(program->graph(), *step.node)});
  }
  return use;
}

template <class Map, class Less>
auto sorted(const Map& map, Less&& less) {
  std::vector<typename Map::mapped_type> list;
  for (const auto& [key, value] : map) list.push_back(value);
  std::ranges::stable_sort(list, less);
  return list;
}

}  // namespace

Inspection inspect(const Graph& graph, std::span<const TensorType> inputs,
                   compute::Workers& workers, std::shared_ptr<cuda::Context> cuda) {
  Inspection result;
  std::map<Key, OperatorUse> operators;
  std::map<DType, ParameterUse> parameters;
  count_nodes(graph, operators);
  count_parameters(graph, parameters);
  for (const auto& [key, use] : operators) result.nodes += static_cast<std::size_t>(use.nodes);
  try {
    result.compiled = compile(graph, inputs, Compiler{workers, std::move(cuda)}, operators);
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

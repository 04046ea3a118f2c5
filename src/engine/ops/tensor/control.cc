// If and Loop.
#include "engine/ops/tensor/control.h"

#include "engine/ops/axes.h"
#include "engine/ops/families.h"
#include "engine/ops/moves.h"

namespace sluice::engine {

const Graph& subgraph_of(const OpCall& call, std::string_view attribute) {
  const Graph* const body = call.node.subgraph(attribute);
  require(body != nullptr, "the graph '" + std::string(attribute) + "' is missing");
  return *body;
}

Tensor stack(const std::vector<Tensor>& items, const Value& like, compute::Workers& workers) {
  if (items.empty()) {
    Shape shape{0};
    for (const Dim& dim : like.dims.value_or(std::vector<Dim>{}))
      shape.push_back(std::max<std::int64_t>(dim.size, 0));
    require(like.dtype != DType::none, "nothing says which elements '" + like.name + "' has");
    return Tensor(like.dtype, shape);
  }
  std::vector<Tensor> rows;
  for (const Tensor& item : items) {
    Shape shape = item.shape();
    shape.insert(0, 1);
    rows.push_back(item.reshaped(shape));
  }
  return concatenated(rows, 0, workers);
}

namespace {

void branch(OpCall& call) {
  const Graph& body = subgraph_of(call, flag_of(call, 0) ? "then_branch" : "else_branch");
  std::vector<Datum> results = call.run_subgraph(body, {});
  require(results.size() == call.outputs(), "the branch gives " + std::to_string(results.size()) +
                                                " values, not " + std::to_string(call.outputs()));
  for (std::size_t i = 0; i < results.size(); ++i) call.set_output(i, std::move(results[i]));
}

bool truth(const Datum& value) {
  require(value.kind == Datum::Kind::tensor && value.tensor.dtype() == DType::boolean &&
              value.tensor.size() == 1,
          "the condition must be one boolean");
  return value.tensor.values<bool>()[0];
}

const Tensor& tensor_of(const Datum& value) {
  require(value.kind == Datum::Kind::tensor, "what a loop collects must be tensors");
  return value.tensor;
}

void loop(OpCall& call) {
  const Graph& body = subgraph_of(call, "body");
  const std::size_t carried = call.inputs() < 2 ? 0 : call.inputs() - 2;
  require(body.inputs.size() == carried + 2 && body.outputs.size() > carried,
          "the body does not fit the node's inputs");
  const std::size_t collected = body.outputs.size() - 1 - carried;
  require(call.outputs() <= carried + collected, "more outputs than the body gives");
  const std::int64_t max_trips =
      call.has(0) ? integer_of(call, 0) : std::numeric_limits<std::int64_t>::max();
  bool going = !call.has(1) || flag_of(call, 1);
  std::vector<Datum> state;
  for (std::size_t i = 0; i < carried; ++i)
    state.push_back(call.has(i + 2) ? call.datum(i + 2) : Datum());
  std::vector<TensorList> lists(collected);
  for (std::int64_t trip = 0; trip < max_trips && going; ++trip) {
    std::vector<Datum> inputs{Tensor::of(trip), Tensor::of(going)};
    std::move(state.begin(), state.end(), std::back_inserter(inputs));
    std::vector<Datum> results = call.run_subgraph(body, inputs);
    going = truth(results[0]);
    state.assign(results.begin() + 1, results.begin() + 1 + static_cast<std::ptrdiff_t>(carried));
    for (std::size_t i = 0; i < collected; ++i) lists[i].add(tensor_of(results[1 + carried + i]));
  }
  for (std::size_t i = 0; i < carried; ++i) call.set_output(i, std::move(state[i]));
  for (std::size_t i = 0; i < collected; ++i)
    if (call.wants(carried + i))
      call.set_output(carried + i,
                      stack(lists[i].all(), body[body.outputs[1 + carried + i]], call.workers));
}

constexpr Types kCondition = Types{DType::boolean};
constexpr Op kControlOps[] = {
    {"If", 1, kCondition, branch},
    {"Loop", 1, kAnyType, loop},
};

}  // namespace

std::span<const Op> control_ops() { return kControlOps; }

}  // namespace sluice::engine

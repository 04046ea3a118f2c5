// Scan: runs a subgraph over slices of tensors, carrying a state.
#include "engine/ops/axes.h"
#include "engine/ops/families.h"
#include "engine/ops/moves.h"
#include "engine/ops/tensor/control.h"

namespace sluice::engine {
namespace {

using Lists = std::vector<TensorList>;

struct Scanned {
  Tensor tensor;
  int axis;
  bool backward;
};

Tensor without_axis(const Tensor& tensor, int axis) {
  Shape shape = tensor.shape();
  shape.erase(axis);
  return tensor.reshaped(shape);
}

// Runs `length` iterations; updates the state and appends the scan outputs to `lists`.
void go(OpCall& call, const Graph& body, std::vector<Tensor>& state,
        const std::vector<Scanned>& inputs, std::int64_t length, Lists& lists) {
  require(body.inputs.size() == state.size() + inputs.size() &&
              body.outputs.size() == state.size() + lists.size(),
          "the body does not fit the node's inputs and outputs");
  for (std::int64_t step = 0; step < length; ++step) {
    std::vector<Datum> values(state.begin(), state.end());
    for (const Scanned& input : inputs) {
      const std::int64_t i = input.backward ? length - 1 - step : step;
      values.push_back(
          without_axis(slice_of(input.tensor, input.axis, i, 1, call.workers), input.axis));
    }
    const std::vector<Datum> results = call.run_subgraph(body, values);
    for (std::size_t i = 0; i < results.size(); ++i) {
      require(results[i].kind == Datum::Kind::tensor, "the body must give tensors");
      if (i < state.size())
        state[i] = results[i].tensor;
      else
        lists[i - state.size()].add(results[i].tensor);
    }
  }
}

// A checked element of an optional list.
std::int64_t element(const std::vector<std::int64_t>& list, std::size_t i, std::size_t count) {
  require(list.empty() || list.size() == count, "a list of axes or directions does not fit");
  return list.empty() ? 0 : list[i];
}

struct Counts {
  std::size_t scanned, carried, collected;
};

Counts counts_of(const OpCall& call, const Graph& body, std::size_t first) {
  const std::int64_t given = call.attributes().integer("num_scan_inputs");
  require(given > 0 && call.inputs() >= first &&
              static_cast<std::uint64_t>(given) <= call.inputs() - first,
          std::to_string(given) + " scanned inputs of " + std::to_string(call.inputs()));
  const auto scanned = static_cast<std::size_t>(given);
  const std::size_t carried = call.inputs() - first - scanned;
  require(body.outputs.size() >= carried && call.outputs() <= body.outputs.size(),
          "the body does not fit the node's outputs");
  return {scanned, carried, body.outputs.size() - carried};
}

Tensor collected(OpCall& call, std::vector<Tensor> items, const Value& like, std::int64_t axis,
                 bool backward) {
  if (backward) std::reverse(items.begin(), items.end());
  const Tensor rows = stack(items, like, call.workers);
  const int to = resolve_axis(axis, rows.rank());
  if (to == 0) return rows;
  std::vector<int> order = all_axes(rows.rank());
  std::rotate(order.begin(), order.begin() + 1, order.begin() + to + 1);
  return transposed(rows, order, call.workers);
}

void scan(OpCall& call) {
  const Graph& body = subgraph_of(call, "body");
  const Counts counts = counts_of(call, body, 0);
  const Attributes& a = call.attributes();
  std::vector<Tensor> state;
  for (std::size_t i = 0; i < counts.carried; ++i) state.push_back(call.input(i));
  std::vector<Scanned> inputs;
  std::int64_t length = 0;
  for (std::size_t i = 0; i < counts.scanned; ++i) {
    const Tensor& tensor = call.input(counts.carried + i);
    const int axis =
        resolve_axis(element(a.integers("scan_input_axes"), i, counts.scanned), tensor.rank());
    if (i == 0) length = tensor.shape()[axis];
    require(tensor.shape()[axis] == length, "scanned inputs of different lengths");
    inputs.push_back(
        {tensor, axis, element(a.integers("scan_input_directions"), i, counts.scanned) != 0});
  }
  Lists lists(counts.collected);
  go(call, body, state, inputs, length, lists);
  for (std::size_t i = 0; i < counts.carried; ++i) call.set_output(i, state[i]);
  for (std::size_t i = 0; i < counts.collected; ++i)
    call.set_output(
        counts.carried + i,
        collected(call, lists[i].all(), body[body.outputs[counts.carried + i]],
                  element(a.integers("scan_output_axes"), i, counts.collected),
                  element(a.integers("scan_output_directions"), i, counts.collected) != 0));
}

Tensor row_of(OpCall& call, const Tensor& tensor, std::int64_t row) {
  return without_axis(slice_of(tensor, 0, row, 1, call.workers), 0);
}

// Pads with zero rows to that many rows.
Tensor lengthened(OpCall& call, const Tensor& tensor, std::int64_t rows) {
  Shape shape = tensor.shape();
  shape[0] = rows;
  Tensor all(tensor.dtype(), shape);
  fill_zero(all);
  move_elements({tensor}, {all}, {{tensor.size(), 1, 1}}, call.workers);
  return all;
}

// Opset 8: each batch row is scanned separately, with its own length.
void scan_batch(OpCall& call) {
  const Graph& body = subgraph_of(call, "body");
  const Counts counts = counts_of(call, body, 1);
  const Tensor& leader = call.input(1 + counts.carried);
  require(leader.rank() >= 2, "a scanned input without batch and time");
  const std::int64_t batch = leader.shape()[0], max = leader.shape()[1];
  const auto lengths = call.has(0)
                           ? call.integers(0)
                           : std::vector<std::int64_t>(static_cast<std::size_t>(batch), max);
  require(static_cast<std::int64_t>(lengths.size()) == batch && batch > 0,
          "one length for each row of the batch");
  for (std::size_t i = 1; i < call.inputs(); ++i)
    require(
        call.input(i).rank() >= 1 && call.input(i).shape()[0] == batch &&
            (i <= counts.carried || (call.input(i).rank() >= 2 && call.input(i).shape()[1] == max)),
        "inputs of different batches or lengths");
  Lists states(counts.carried), rows(counts.collected);
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t length = lengths[static_cast<std::size_t>(b)];
    require(length >= 0 && length <= max, "a length of " + std::to_string(length));
    std::vector<Tensor> state;
    std::vector<Scanned> inputs;
    for (std::size_t i = 0; i < counts.carried; ++i)
      state.push_back(row_of(call, call.input(1 + i), b));
    for (std::size_t i = 0; i < counts.scanned; ++i)
      inputs.push_back({row_of(call, call.input(1 + counts.carried + i), b), 0,
                        element(call.attributes().integers("directions"), i, counts.scanned) != 0});
    Lists lists(counts.collected);
    go(call, body, state, inputs, length, lists);
    for (std::size_t i = 0; i < counts.carried; ++i) states[i].add(state[i]);
    for (std::size_t i = 0; i < counts.collected; ++i) {
      const Value& like = body[body.outputs[counts.carried + i]];
      rows[i].add(lengthened(call, stack(lists[i].all(), like, call.workers), max));
    }
  }
  for (std::size_t i = 0; i < counts.carried; ++i)
    call.set_output(i, stack(states[i].all(), {}, call.workers));
  for (std::size_t i = 0; i < counts.collected; ++i)
    call.set_output(counts.carried + i, stack(rows[i].all(), {}, call.workers));
}

constexpr Op kScanOps[] = {
    {"Scan", 8, kAnyType, scan_batch},
    {"Scan", 9, kAnyType, scan},
};

}  // namespace

std::span<const Op> scan_ops() { return kScanOps; }

}  // namespace sluice::engine

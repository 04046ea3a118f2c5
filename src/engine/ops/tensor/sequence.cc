// Sequences of tensors, and values that may be absent.
#include "engine/ops/axes.h"
#include "engine/ops/families.h"
#include "engine/ops/moves.h"
#include "engine/ops/tensor/control.h"

namespace sluice::engine {
namespace {

std::int64_t length(const std::vector<Tensor>& items) {
  return static_cast<std::int64_t>(items.size());
}

void sequence_at(OpCall& call) {
  const auto& items = call.sequence(0);
  const std::int64_t i = resolve_index(integer_of(call, 1), length(items));
  call.set_output(0, items[static_cast<std::size_t>(i)]);
}

void sequence_construct(OpCall& call) {
  std::vector<Tensor> items;
  for (std::size_t i = 0; i < call.inputs(); ++i) {
    items.push_back(call.input(i));
    require(items[i].dtype() == items[0].dtype(), "items of different element types");
  }
  call.set_output(0, std::move(items));
}

void sequence_empty(OpCall& call) { call.set_output(0, std::vector<Tensor>{}); }

void sequence_erase(OpCall& call) {
  std::vector<Tensor> items = call.sequence(0);
  const std::int64_t i = resolve_index(call.has(1) ? integer_of(call, 1) : -1, length(items));
  items.erase(items.begin() + i);
  call.set_output(0, std::move(items));
}

void sequence_insert(OpCall& call) {
  std::vector<Tensor> items = call.sequence(0);
  require(items.empty() || items[0].dtype() == call.input(1).dtype(),
          "an item of another element type");
  const std::int64_t size = length(items);
  std::int64_t i = call.has(2) ? integer_of(call, 2) : size;
  require(i >= -size && i <= size,
          "position " + std::to_string(i) + " in a sequence of " + std::to_string(size));
  if (i < 0) i += size;
  items.insert(items.begin() + i, call.input(1));
  call.set_output(0, std::move(items));
}

void sequence_length(OpCall& call) { call.set_output(0, Tensor::of(length(call.sequence(0)))); }

// One size for all chunks but the last, or a list of sizes.
std::vector<std::int64_t> part_sizes(const OpCall& call, std::int64_t total) {
  if (call.has(1) && call.input(1).rank() > 0) return call.integers(1);
  const std::int64_t each = call.has(1) ? integer_of(call, 1) : 1;
  require(each > 0, "parts of " + std::to_string(each));
  require(total / each < (1 << 24), "more than 16 million chunks");
  std::vector<std::int64_t> sizes;
  for (std::int64_t rest = total; rest > 0; rest -= each) sizes.push_back(std::min(each, rest));
  return sizes;
}

void split_to_sequence(OpCall& call) {
  const Tensor& data = call.input(0);
  const int axis = resolve_axis(call.attributes().integer("axis", 0), data.rank());
  const std::int64_t total = data.shape()[axis];
  const bool drop = !call.has(1) && !call.attributes().flag("keepdims", true);
  TensorList items;
  std::int64_t begin = 0;
  for (const std::int64_t size : part_sizes(call, total)) {
    require(size >= 0 && size <= total - begin,
            "the split sizes do not add up to " + std::to_string(total) + " elements");
    Tensor item = slice_of(data, axis, begin, size, call.workers);
    if (drop) {
      Shape shape = item.shape();
      shape.erase(axis);
      item = item.reshaped(shape);
    }
    items.add(std::move(item));
    begin += size;
  }
  require(begin == total,
          "the split sizes do not add up to " + std::to_string(total) + " elements");
  call.set_output(0, std::move(items));
}

void concat_from_sequence(OpCall& call) {
  std::vector<Tensor> items = call.sequence(0);
  require(!items.empty(), "an empty sequence cannot be joined");
  const bool new_axis = call.attributes().flag("new_axis");
  const int axis =
      resolve_axis(call.attributes().integer("axis"), items[0].rank() + (new_axis ? 1 : 0));
  for (Tensor& item : items) {
    if (!new_axis) break;
    Shape shape = item.shape();
    require(axis <= shape.rank(), "items of different rank");
    shape.insert(axis, 1);
    item = item.reshaped(shape);
  }
  call.set_output(0, concatenated(items, axis, call.workers));
}

void sequence_map(OpCall& call) {
  const Graph& body = subgraph_of(call, "body");
  const std::size_t count = call.sequence(0).size();
  std::vector<TensorList> lists(call.outputs());
  require(body.outputs.size() >= lists.size(), "the body gives too few values");
  for (std::size_t iteration = 0; iteration < count; ++iteration) {
    std::vector<Datum> inputs;
    for (std::size_t i = 0; i < call.inputs(); ++i) {
      const Datum& given = call.datum(i);
      if (given.kind == Datum::Kind::sequence) {
        require(given.items->size() == count, "sequences of different lengths");
        inputs.push_back((*given.items)[iteration]);
      } else {
        inputs.push_back(given);
      }
    }
    const std::vector<Datum> results = call.run_subgraph(body, inputs);
    for (std::size_t i = 0; i < lists.size(); ++i) {
      require(results[i].kind == Datum::Kind::tensor, "the body must give tensors");
      lists[i].add(results[i].tensor);
    }
  }
  for (std::size_t i = 0; i < lists.size(); ++i) call.set_output(i, std::move(lists[i]));
}

void optional(OpCall& call) { call.set_output(0, call.has(0) ? call.datum(0) : Datum()); }

void optional_has_element(OpCall& call) { call.set_output(0, Tensor::of(call.has(0))); }

void optional_get_element(OpCall& call) {
  require(call.has(0), "the optional is empty");
  call.set_output(0, call.datum(0));
}

constexpr Op kSequenceOps[] = {
    {"SequenceAt", 11, kAnyType, sequence_at},
    {"SequenceConstruct", 11, kAnyType, sequence_construct},
    {"SequenceEmpty", 11, kAnyType, sequence_empty},
    {"SequenceErase", 11, kAnyType, sequence_erase},
    {"SequenceInsert", 11, kAnyType, sequence_insert},
    {"SequenceLength", 11, kAnyType, sequence_length},
    {"SplitToSequence", 11, kAnyType, split_to_sequence},
    {"ConcatFromSequence", 11, kAnyType, concat_from_sequence},
    {"SequenceMap", 17, kAnyType, sequence_map},
    {"Optional", 15, kAnyType, optional},
    {"OptionalHasElement", 15, kAnyType, optional_has_element},
    {"OptionalGetElement", 15, kAnyType, optional_get_element},
};

}  // namespace

std::span<const Op> sequence_ops() { return kSequenceOps; }

}  // namespace sluice::engine

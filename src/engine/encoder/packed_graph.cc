#include "engine/encoder/packed_graph.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/printable.h"
#include "engine/graph/fused_ops.h"
#include "engine/graph/graph_editor.h"
#include "engine/graph/tensor_type.h"
#include "engine/passes/tokens.h"
#include "engine/shapes/specialize.h"

namespace sluice::engine {
namespace {

// Small: masks of these many sequences are computed to prove that they are padding masks.
constexpr std::int64_t kSequencePrimes[] = {13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53};
// Larger than any size of a model; nothing is allocated for these many tokens.
constexpr std::int64_t kTokenPrimes[] = {1'000'003, 1'000'033, 1'000'037, 1'000'039, 1'000'081};

[[noreturn]] void refuse(const std::string& why) { throw Error(Code::unavailable, why); }

// A prime that divides no size of a constant: the first, or the second.
std::int64_t unused_prime(std::span<const std::int64_t> primes, const Graph& model, bool second) {
  const auto used = [&](std::int64_t prime) {
    return std::ranges::any_of(model.values, [&](const Value& value) {
      return value.constant && std::ranges::any_of(value.constant.shape(), [&](std::int64_t size) {
               return size > 0 && size % prime == 0;
             });
    });
  };
  for (const std::int64_t prime : primes)
    if (!used(prime) && !std::exchange(second, false)) return prime;
  refuse("the sizes of its weights");
}

ValueId output_named(const Graph& model, const std::string& name) {
  require(!model.outputs.empty(), "the model has no outputs");
  if (name.empty()) return model.outputs[0];
  std::string known;
  for (const ValueId id : model.outputs) {
    if (model[id].name == name) return id;
    known += (known.empty() ? "" : ", ") + in_quotes(model[id].name);
  }
  throw Error(Code::invalid_argument,
              "the model has no output " + in_quotes(name) + ", but " + known);
}

// Drops the values that nothing uses: weights that the passes replaced, above all.
Graph compacted(const Graph& graph) {
  std::vector<ValueId> to(graph.values.size(), kNoValue);
  Graph made{};
  made.name = graph.name;
  const auto moved = [&](ValueId id) {
    if (id == kNoValue) return id;
    ValueId& at = to[static_cast<std::size_t>(id)];
    if (at == kNoValue) {
      at = static_cast<ValueId>(made.values.size());
      made.values.push_back(graph[id]);
    }
    return at;
  };
  const auto move_all = [&](const std::vector<ValueId>& ids) {
    std::vector<ValueId> all;
    for (const ValueId id : ids) all.push_back(moved(id));
    return all;
  };
  made.inputs = move_all(graph.inputs);
  made.outputs = move_all(graph.outputs);
  for (Node node : graph.nodes) {
    node.inputs = move_all(node.inputs);
    node.outputs = move_all(node.outputs);
    made.nodes.push_back(std::move(node));
  }
  return made;
}

// The input that holds the sizes of a node's output; none if it has none.
std::optional<std::size_t> shape_input(const Node& node) {
  const bool sized = node.domain.empty() && (node.op == "Reshape" || node.op == "Expand");
  return sized ? std::optional<std::size_t>(1) : std::nullopt;
}

// A model's graph for packed sequences, with primes in place of their numbers.
struct Symbolic {
  Graph graph;
  std::int64_t tokens, sequences;
  SkipPadding skip;
  std::vector<PassReport> passes;
};

Symbolic packed_symbolic(const Graph& model, const EncoderOptions& options,
                         compute::Workers& workers, Backend backend, bool second) {
  Symbolic made{.graph = {},
                .tokens = unused_prime(kTokenPrimes, model, second),
                .sequences = unused_prime(kSequencePrimes, model, second),
                .skip = {},
                .passes = {}};
  const std::int64_t length = options.max_length - (second && options.max_length > 2 ? 1 : 0);
  Graph one_output = model;
  one_output.outputs = {output_named(model, options.output)};
  std::vector<TensorType> types;
  for (const ValueId id : model.inputs)
    types.push_back({model[id].dtype, {made.sequences, length}});
  try {
    made.graph = specialize(one_output, types, workers);
  } catch (const Error& error) {
    throw Error(error.code(), "the model does not take sequences of " + std::to_string(length) +
                                  " tokens: " + std::string(error.reason()));
  }
  made.skip = {.tokens = made.tokens, .packed_io = true};
  made.passes = optimize(made.graph, nullptr, backend, &made.skip);
  made.graph = compacted(made.graph);
  return made;
}

bool same_sizes(const Symbolic& a, const Symbolic& b, const Value& x, const Value& y) {
  const auto factor = [](const Symbolic& of, std::int64_t size) {
    if (size == 0) return std::pair<std::int64_t, std::int64_t>(0, 0);
    if (size % of.tokens == 0) return std::pair<std::int64_t, std::int64_t>(1, size / of.tokens);
    if (size % of.sequences == 0)
      return std::pair<std::int64_t, std::int64_t>(2, size / of.sequences);
    return std::pair<std::int64_t, std::int64_t>(3, size);
  };
  const Shape left = type_of(x).shape, right = type_of(y).shape;
  return left.rank() == right.rank() &&
         std::ranges::equal(left, right, [&](std::int64_t l, std::int64_t r) {
           return factor(a, l) == factor(b, r) ||
                  (l == a.sequences + 1 && r == b.sequences + 1);  // cu_seqlens
         });
}

// Small numbers that a model computes with. Shapes are lists of integers, and tables by position
// are as long as the sequences.
bool same_numbers(const Tensor& a, const Tensor& b) {
  constexpr std::int64_t kSmall = 64;
  const bool real = a.dtype() == DType::f32 || a.dtype() == DType::f64;
  if (a.dtype() != b.dtype()) return false;
  if (!real || a.size() > kSmall || a.shape() != b.shape()) return true;
  return std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

// The numbers and texts of fused operators' attributes; integers may be sizes.
template <class T>
bool same_attribute(const Attributes::Any& a, const Attributes::Any& b) {
  const T* const x = std::get_if<T>(&a);
  const T* const y = std::get_if<T>(&b);
  return x == nullptr || (y != nullptr && *x == *y);
}

bool same_attributes(const Node& a, const Node& b) {
  const auto& left = a.attributes.all();
  const auto& right = b.attributes.all();
  return std::ranges::equal(left, right, [](const auto& x, const auto& y) {
    return x.first == y.first && same_attribute<float>(x.second, y.second) &&
           same_attribute<std::string>(x.second, y.second) &&
           same_attribute<Attributes::Reals>(x.second, y.second) &&
           same_attribute<Attributes::Strings>(x.second, y.second);
  });
}

// A number of sequences, or a length, that went into the graph other than as a size would be wrong
// for other batches: at two of each, the graphs must not differ but in their sizes.
void require_same(const Symbolic& a, const Symbolic& b) {
  bool same = a.graph.nodes.size() == b.graph.nodes.size() &&
              a.graph.values.size() == b.graph.values.size();
  for (std::size_t i = 0; same && i < a.graph.nodes.size(); ++i)
    same = a.graph.nodes[i].op == b.graph.nodes[i].op &&
           same_attributes(a.graph.nodes[i], b.graph.nodes[i]);
  for (std::size_t i = 0; same && i < a.graph.values.size(); ++i) {
    const Value &x = a.graph.values[i], &y = b.graph.values[i];
    same = static_cast<bool>(x.constant) == static_cast<bool>(y.constant) &&
           (x.constant ? same_numbers(x.constant, y.constant) : same_sizes(a, b, x, y));
  }
  if (!same) refuse("it computes with the number or the length of its sequences");
}

}  // namespace

PackedGraph::PackedGraph(const Graph& model, const EncoderOptions& options,
                         compute::Workers& workers, Backend backend)
    : max_length_(options.max_length) {
  require(options.max_length > 1, "sequences of at most one token");
  Symbolic made = packed_symbolic(model, options, workers, backend, false);
  require_same(made, packed_symbolic(model, options, workers, backend, true));
  graph_ = std::move(made.graph);
  tokens_ = made.tokens;
  sequences_ = made.sequences;
  passes_ = std::move(made.passes);
  padding_id_ = made.skip.padding_id;
  padded_input_ = made.skip.padded_input;
  find_inputs(model[model.inputs.at(made.skip.mask.input)].name);
  check_inputs();
  check_rows();
  if (options.pooling) add_pooling(options);
  const Shape output = type_of(graph_[graph_.outputs[0]]).shape;
  pooled_ = output.rank() == 2 && output[0] == sequences_;
  if (!pooled_ && (output.rank() != 3 || output[1] != tokens_))
    refuse("output " + in_quotes(graph_[graph_.outputs[0]].name) +
           " is not one row for each token or sequence");
  width_ = output[output.rank() - 1];
  if (width_ == 0)
    refuse("output " + in_quotes(graph_[graph_.outputs[0]].name) + " has no columns");
  if (graph_[graph_.outputs[0]].dtype != DType::f32)
    refuse("output " + in_quotes(graph_[graph_.outputs[0]].name) + " is " +
           std::string(to_string(graph_[graph_.outputs[0]].dtype)) + ", not f32");
  require(options.precision == DType::f32 || backend == Backend::cuda,
          "the CPU computes encoders in fp32");
  if (options.precision == DType::f32) return;
  GraphEditor edit(graph_);
  passes_.push_back(
      {"to " + std::string(to_string(options.precision)), to_precision(edit, options.precision)});
  edit.finish();
}

kernels::RowsOf PackedGraph::rows_of(const Shape& shape) const {
  for (const std::int64_t size : shape) {
    if (size > 0 && size % tokens_ == 0) return kernels::RowsOf::tokens;
    if (size > 0 && size % sequences_ == 0) return kernels::RowsOf::sequences;
    if (size != 1) break;  // rows of something else contain those
  }
  return kernels::RowsOf::other;
}

std::vector<kernels::RowsOf> PackedGraph::rows() const {
  std::vector<kernels::RowsOf> all;
  for (const Node& node : graph_.nodes) {
    const bool known = !node.outputs.empty() && node.outputs[0] != kNoValue;
    all.push_back(known ? rows_of(type_of(graph_[node.outputs[0]]).shape) : kernels::RowsOf::other);
  }
  return all;
}

// The last two inputs are those that the pass made; the others are the model's.
void PackedGraph::find_inputs(const std::string& mask) {
  for (std::size_t i = 0; i + 2 < graph_.inputs.size(); ++i) {
    const ValueId id = graph_.inputs[i];
    const std::string& name = graph_[id].name;
    const bool types = name.find("type") != std::string::npos || name.find("segment") == 0;
    const bool integers = graph_[id].dtype == DType::i64 || graph_[id].dtype == DType::i32;
    if (name != mask && !integers)
      refuse("its input " + in_quotes(name) + " holds something else than ids");
    if (name == mask) {
      inputs_.push_back(Input::mask);
    } else if (types) {
      if (takes_types()) refuse("it has several inputs of token types");
      inputs_.push_back(Input::type_ids);
      token_types_ = rows_gathered(id);
    } else if (vocabulary_ == 0) {
      inputs_.push_back(Input::ids);
      vocabulary_ = rows_gathered(id);
      if (vocabulary_ == 0) refuse("no table of its weights is read by token ids");
      if (padding_id_ && name != padded_input_)
        refuse("its positions are counted by " + in_quotes(padded_input_));
    } else {
      refuse("it has an input " + in_quotes(name) + " besides token ids, types and mask");
    }
  }
  if (vocabulary_ == 0) refuse("it does not read token ids");
  inputs_.insert(inputs_.end(), {Input::positions, Input::cu_seqlens});
}

bool PackedGraph::takes_types() const {
  return std::ranges::find(inputs_, Input::type_ids) != inputs_.end();
}

// The rows of the smallest constant table that `input` indexes; 0: of none.
std::int64_t PackedGraph::rows_gathered(ValueId input) const {
  std::int64_t rows = 0;
  for (const Node& node : graph_.nodes) {
    if (node.op != "Gather" || node.inputs[1] != input || !graph_[node.inputs[0]].constant)
      continue;
    const std::int64_t here = graph_[node.inputs[0]].constant.shape()[0];
    rows = rows == 0 ? here : std::min(rows, here);
  }
  return rows;
}

// What is left must not read padded inputs.
void PackedGraph::check_inputs() const {
  std::set<ValueId> known(graph_.inputs.begin(), graph_.inputs.end());
  for (const Node& node : graph_.nodes) {
    for (const ValueId id : node.inputs)
      if (id != kNoValue && !graph_[id].constant && !known.contains(id))
        refuse(describe(node) + " reads " + in_quotes(graph_[id].name) + " with its padding");
    known.insert(node.outputs.begin(), node.outputs.end());
  }
}

// Behind the pooling every row must stay a sequence's own.
void PackedGraph::check_rows() const {
  constexpr std::string_view kByRow[] = {"Linear", "Norm", "Chain", "QuantizedLinear",
                                         "PoolTokens"};
  for (const Node& node : graph_.nodes) {
    if (node.outputs.empty() || node.outputs[0] == kNoValue) continue;
    const Shape shape = type_of(graph_[node.outputs[0]]).shape;
    const bool of_sequences = std::ranges::any_of(node.inputs, [&](ValueId id) {
      if (id == kNoValue || graph_[id].constant) return false;
      const Shape input = type_of(graph_[id]).shape;
      return input.rank() > 0 && input[0] % sequences_ == 0 && input[0] > 0;
    });
    if (!of_sequences) continue;
    const bool fused =
        node.domain == kFused && std::ranges::find(kByRow, node.op) != std::end(kByRow);
    const bool view = node.op == "Reshape" || node.op == "Squeeze" || node.op == "Unsqueeze";
    const bool known = fused || (node.domain.empty() && (is_elementwise(node) || view));
    if (!known || shape.rank() == 0 || shape[0] != sequences_)
      refuse(describe(node) + " may mix the sequences of a batch");
  }
}

void PackedGraph::add_pooling(const EncoderOptions& options) {
  const ValueId hidden = graph_.outputs[0];
  const TensorType type = type_of(graph_[hidden]);
  require(type.shape.rank() == 3 && type.shape[1] == tokens_,
          "only an output [batch, length, width] has tokens to pool, not " +
              in_quotes(graph_[hidden].name));
  const ValueId cu_seqlens = graph_.inputs[static_cast<std::size_t>(
      std::ranges::find(inputs_, Input::cu_seqlens) - inputs_.begin())];
  const auto pooled = static_cast<ValueId>(graph_.values.size());
  graph_.values.push_back({.name = "pooled tokens",
                           .dtype = type.dtype,
                           .dims = std::vector<Dim>{{sequences_, ""}, {type.shape[2], ""}}});
  Node node = fused("PoolTokens", "pooling", {hidden, cu_seqlens}, {pooled});
  node.attributes.set("pooling", std::string(to_string(*options.pooling)));
  node.attributes.set("normalize", std::int64_t{options.normalize});
  graph_.nodes.push_back(std::move(node));
  graph_.outputs = {pooled};
}

std::int64_t PackedGraph::resized(std::int64_t size, const Sizes& sizes) const {
  if (size % tokens_ == 0) return size / tokens_ * sizes.tokens;
  return size % sequences_ == 0 ? size / sequences_ * sizes.sequences : size;
}

Graph PackedGraph::at(const Sizes& sizes) const {
  Graph made = graph_;
  for (Value& value : made.values)
    if (!value.constant)
      for (Dim& dim : *value.dims) dim.size = resized(dim.size, sizes);
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i] == Input::cu_seqlens) (*made[made.inputs[i]].dims)[0].size = sizes.sequences + 1;
  for (Node& node : made.nodes) {
    if (node.attributes.has("max_seqlen")) node.attributes.set("max_seqlen", sizes.longest);
    const auto input = shape_input(node);
    if (!input || graph_[node.inputs[*input]].constant.size() == 0) continue;
    const auto symbolic = graph_[node.inputs[*input]].constant.values<std::int64_t>();
    std::vector<std::int64_t> shape;
    for (const std::int64_t size : symbolic)
      shape.push_back(size > 0 ? resized(size, sizes) : size);
    if (!std::ranges::equal(shape, symbolic))
      made[node.inputs[*input]].constant = Tensor::of(std::span<const std::int64_t>(shape));
  }
  return made;
}

}  // namespace sluice::engine

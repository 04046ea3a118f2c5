#include "engine/precision/sample_inputs.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <random>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "base/nearest.h"
#include "engine/ops/op.h"

namespace sluice::engine {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw Error(Code::invalid_argument, why); }

// The symbols of dynamic dimensions.
std::set<std::string> symbols_of(const Graph& graph) {
  std::set<std::string> symbols;
  for (const ValueId id : graph.inputs)
    for (const Dim& dim : graph[id].dims.value_or(std::vector<Dim>{}))
      if (dim.size < 0 && !dim.symbol.empty()) symbols.insert(dim.symbol);
  return symbols;
}

void check_names(const Graph& graph, const std::set<std::string>& given) {
  std::set<std::string> symbols = symbols_of(graph);
  std::vector<std::string_view> known(symbols.begin(), symbols.end());
  for (const ValueId id : graph.inputs) known.push_back(graph[id].name);
  for (const std::string& name : given)
    if (std::ranges::find(known, name) == known.end())
      refuse("no input and no size is called '" + name + "'" + did_you_mean(name, known) +
             "; the inputs are\n" + list_inputs(graph));
}

Shape fitted(const Value& value, const std::vector<std::int64_t>& given) {
  bool fits = !value.dims || value.dims->size() == given.size();
  for (std::size_t i = 0; fits && value.dims && i < given.size(); ++i)
    fits = (*value.dims)[i].size < 0 || (*value.dims)[i].size == given[i];
  const Shape shape{std::span<const std::int64_t>(given)};
  if (!fits) refuse("'" + value.name + "' is " + declared(value) + ", not " + to_string(shape));
  return shape;
}

// The operators that pass indices on to the tables they index.
bool passes_indices(const Node& node) {
  return node.op == "Cast" || node.op == "Identity" || node.op == "Unsqueeze" ||
         node.op == "Reshape" || node.op == "Flatten";
}

// Finds the tables that inputs index.
class IndexedTables {
 public:
  explicit IndexedTables(const Graph& graph) : graph_(graph) {
    for (const Node& node : graph.nodes) {
      const std::size_t i = node.op == "Gather" ? 1 : 0;
      if ((i == 1 || passes_indices(node)) && i < node.inputs.size() && node.inputs[i] != kNoValue)
        users_[node.inputs[i]].push_back(&node);
    }
  }

  // The minimum number of rows of the tables that this input indexes; none if it indexes none.
  // Every value has one producer, so that no two inputs share nodes, and the time for all of them
  // is linear.
  std::optional<std::int64_t> min_rows(ValueId input) const {
    std::optional<std::int64_t> min;
    std::set<ValueId> seen{input};
    std::vector<ValueId> open{input};
    while (!open.empty()) {
      const auto users = users_.find(open.back());
      open.pop_back();
      if (users == users_.end()) continue;
      for (const Node* node : users->second) {
        if (node->op == "Gather") {
          if (const auto rows = rows_of(*node)) min = std::min(min.value_or(*rows), *rows);
          continue;
        }
        const ValueId passed = node->outputs.empty() ? kNoValue : node->outputs[0];
        if (passed != kNoValue && seen.insert(passed).second) open.push_back(passed);
      }
    }
    return min;
  }

 private:
  std::optional<std::int64_t> rows_of(const Node& gather) const {
    if (gather.inputs[0] == kNoValue || graph_[gather.inputs[0]].constant.rank() == 0) return {};
    const Tensor& table = graph_[gather.inputs[0]].constant;
    return table.shape()[resolve_axis(gather.attributes.integer("axis", 0), table.rank())];
  }

  const Graph& graph_;
  std::unordered_map<ValueId, std::vector<const Node*>> users_;  // of values that may be indices
};

using Random = std::mt19937_64;

template <class T>
void fill(const Tensor& tensor, std::optional<std::int64_t> rows, Random& random) {
  if constexpr (std::is_integral_v<T>) {
    constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<T>::max());
    const std::uint64_t below = rows ? std::min(static_cast<std::uint64_t>(*rows), kMax) : 0;
    for (T& x : tensor.values<T>()) x = below > 0 ? static_cast<T>(random() % below) : T{1};
  } else {
    std::normal_distribution<float> normal;
    for (T& x : tensor.values<T>()) x = static_cast<T>(normal(random));
  }
}

}  // namespace

std::string declared(const Value& value) {
  if (value.kind != onnx::Type::Kind::tensor) return "not a tensor";
  std::string text(value.dtype == DType::none ? "?" : to_string(value.dtype));
  if (!value.dims) return text + "[...]";
  text += "[";
  for (const Dim& dim : *value.dims) {
    if (text.back() != '[') text += ", ";
    text += dim.size >= 0 ? std::to_string(dim.size) : dim.symbol.empty() ? "?" : dim.symbol;
  }
  return text + "]";
}

std::string list_inputs(const Graph& graph) {
  std::size_t width = 0;
  for (const ValueId id : graph.inputs) width = std::max(width, graph[id].name.size());
  std::string text;
  for (const ValueId id : graph.inputs) {
    std::string name = graph[id].name;
    name.resize(width, ' ');
    text += "  " + name + "  " + declared(graph[id]) + "\n";
  }
  return text;
}

void Sizes::add(std::string_view text) {
  const std::size_t equals = text.rfind('=');
  if (equals == std::string_view::npos || equals == 0)
    refuse("'" + std::string(text) +
           "' is not a shape: NAME=1x128 for an input, NAME=8 for a size");
  std::vector<std::int64_t> sizes;
  for (const char* at = text.data() + equals + 1; at <= text.data() + text.size(); ++at) {
    std::int64_t size = -1;
    const auto [end, error] = std::from_chars(at, text.data() + text.size(), size);
    const bool last = end == text.data() + text.size();
    if (error != std::errc() || size < 0 || (!last && *end != 'x'))
      refuse("'" + std::string(text) + "' is not a shape: sizes are integers separated by x");
    sizes.push_back(size);
    at = end;
  }
  given_.insert_or_assign(std::string(text.substr(0, equals)), std::move(sizes));
}

std::vector<TensorType> Sizes::types(const Graph& graph) const {
  std::set<std::string> names;
  for (const auto& [name, sizes] : given_) names.insert(name);
  check_names(graph, names);
  std::vector<TensorType> types;
  for (const ValueId id : graph.inputs) {
    const Value& value = graph[id];
    const DType dtype = value.dtype == DType::none ? DType::f32 : value.dtype;
    std::vector<std::int64_t> sizes;
    for (const Dim& dim : value.dims.value_or(std::vector<Dim>{})) {
      const auto symbol = given_.find(dim.symbol);
      const bool open = dim.size < 0 && symbol != given_.end() && symbol->second.size() == 1;
      sizes.push_back(dim.size >= 0 ? dim.size : open ? symbol->second[0] : 1);
    }
    if (const auto own = given_.find(value.name); own != given_.end()) sizes = own->second;
    if (batch_ > 0 && !sizes.empty()) sizes[0] = batch_;
    types.push_back({dtype, fitted(value, sizes)});
  }
  return types;
}

std::vector<Tensor> random_inputs(const Graph& graph, std::span<const TensorType> types,
                                  std::uint64_t seed) {
  Random random(seed);
  const IndexedTables tables(graph);
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const ValueId id = graph.inputs[i];
    if (graph[id].kind != onnx::Type::Kind::tensor)
      throw Error(Code::unavailable,
                  "input '" + graph[id].name + "' is not a tensor: provide a value for it");
    checked_size(types[i].shape.dims());
    Tensor tensor(types[i].dtype, types[i].shape);
    if (types[i].dtype == DType::boolean)
      std::ranges::fill(tensor.values<bool>(), true);
    else if (types[i].dtype != DType::string)
      visit_numbers(types[i].dtype,
                    [&]<class T>() { fill<T>(tensor, tables.min_rows(id), random); });
    inputs.push_back(tensor);
  }
  return inputs;
}

}  // namespace sluice::engine

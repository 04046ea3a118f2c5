#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_map>

#include "base/error.h"
#include "engine/graph/graph.h"
#include "engine/graph/sparse.h"

namespace sluice::engine {
namespace {

constexpr std::int64_t kNewestIr = 13, kOldestOpset = 1, kNewestOpset = 28;
constexpr std::size_t kMaxNodes = 4'000'000;  // after inlining functions
// Limits of function inlining: bound names, nodes and values; and bytes of attributes and names. A
// few nested functions could expand to millions.
constexpr std::size_t kMaxCalls = 8'000'000, kMaxCopiedBytes = 1 << 30;
constexpr int kMaxCallDepth = 32;

using Kind = onnx::Attribute::Kind;
using AttributesByName = std::unordered_map<std::string_view, const onnx::Attribute*>;

std::string describe(const onnx::Node& node) {
  std::string text = std::string(node.op) + " node";
  if (!node.name.empty())
    text += " '" + std::string(node.name.substr(0, 200)) + "'";
  else if (!node.outputs.empty())
    text += " that makes '" + std::string(node.outputs[0].substr(0, 200)) + "'";
  return text;
}

[[noreturn]] void refuse(const onnx::Node& node, const std::string& why) {
  throw Error(Code::invalid_argument, describe(node) + ": " + why);
}

Attributes::Any plain(const onnx::Attribute& a, Kind kind) {
  switch (kind) {
    case Kind::real: return a.real;
    case Kind::integer: return a.integer;
    case Kind::string: return std::string(a.string);
    case Kind::tensor: return a.tensor;
    case Kind::reals: return a.reals;
    case Kind::integers: return a.integers;
    case Kind::strings: return Attributes::Strings(a.strings.begin(), a.strings.end());
    case Kind::tensors: return a.tensors;
    case Kind::type: return a.type.value_or(onnx::Type{});
    case Kind::sparse_tensor: return a.sparse ? *a.sparse : onnx::SparseTensor{};
    default: break;
  }
  throw Error(Code::invalid_argument, "attribute '" + std::string(a.name) + "' has no known kind");
}

// IR versions 1 and 2 omit the attribute type.
Kind kind_of(const onnx::Attribute& a) {
  if (a.kind != Kind::none) return a.kind;
  if (a.tensor) return Kind::tensor;
  if (a.graph) return Kind::graph;
  if (!a.integers.empty()) return Kind::integers;
  if (!a.reals.empty()) return Kind::reals;
  if (!a.strings.empty()) return Kind::strings;
  if (!a.string.empty()) return Kind::string;
  if (a.real != 0) return Kind::real;
  return Kind::integer;
}

std::size_t bytes_of(const onnx::Attribute& a) {
  std::size_t bytes = a.name.size() + a.string.size() + a.reals.size() * sizeof(float) +
                      a.integers.size() * sizeof(std::int64_t) + a.tensors.size() * sizeof(Tensor);
  for (const std::string_view text : a.strings) bytes += sizeof(std::string) + text.size();
  if (a.sparse) bytes += sizeof(onnx::SparseTensor) + a.sparse->dims.size() * sizeof(std::int64_t);
  return bytes;
}

void set_type(Value& value, const onnx::Type& type) {
  value.kind = type.kind;
  value.dtype = type.element;
  if (!type.dims) return;
  value.dims.emplace();
  for (const onnx::Type::Dim& dim : *type.dims)
    value.dims->push_back({.size = dim.size, .symbol = std::string(dim.symbol)});
}

// State shared by all graphs of one model.
struct Shared {
  using Name = std::tuple<std::string_view, std::string_view, std::string_view>;
  std::map<Name, const onnx::Function*> functions{};  // by domain, name, overload
  std::size_t nodes = 0;                              // including function calls
  std::size_t made = 0, copied = 0;                   // by inlining

  explicit Shared(const onnx::Model& model) {
    for (const onnx::Function& f : model.functions)
      functions[{f.domain == "ai.onnx" ? "" : f.domain, f.name, f.overload}] = &f;
  }
};

// The names in scope of one graph or function body.
class Importer {
 public:
  Importer(Shared& shared, Graph& graph, Importer* around, const onnx::Opsets& opsets)
      : shared_(shared), graph_(graph), around_(around), opsets_(opsets) {}

  void run(const onnx::Graph& from) {
    graph_.name = from.name;
    for (const auto& info : from.inputs) {
      const ValueId id = define(info.name, "an input");
      graph_.inputs.push_back(id);
      if (info.type) set_type(graph_[id], *info.type);
    }
    for (const auto& [name, tensor] : from.initializers) constant(name, tensor);
    for (const auto& sparse : from.sparse_initializers) constant(sparse.name, dense(sparse));
    nodes(from.nodes);
    for (const auto& info : from.values) type_of(info);
    for (const auto& info : from.outputs) {
      const ValueId id = find(info.name);
      require(id != kNoValue, "nothing makes the output '" + std::string(info.name) + "'");
      graph_.outputs.push_back(id);
      type_of(info);
    }
  }

  void nodes(const std::vector<onnx::Node>& list) {
    for (const onnx::Node* node : in_order(list)) add(*node);
  }

  ValueId find(std::string_view name) {
    if (const auto found = names_.find(name); found != names_.end()) return found->second;
    if (around_ == nullptr) return kNoValue;
    const ValueId outside = around_->find(name);
    if (outside == kNoValue) return kNoValue;
    Value inner = around_->graph_[outside];
    count(1, inner.name.size());
    graph_.values.push_back(std::move(inner));
    const auto here = static_cast<ValueId>(graph_.values.size() - 1);
    graph_.captured.push_back({.outer = outside, .inner = here});
    names_.emplace(name, here);
    return here;
  }

  void bind(std::string_view name, ValueId id) { names_[name] = id; }
  void with(const AttributesByName* given) { given_ = given; }
  void deeper(int calls) { calls_ = calls; }

 private:
  // While inlining: the expansion may be much larger than the file.
  void count(std::size_t things, std::size_t bytes) {
    if (calls_ == 0) return;
    shared_.made += things;
    shared_.copied += bytes;
    require(shared_.made <= kMaxCalls && shared_.copied <= kMaxCopiedBytes,
            "the model's functions make more than 8,000,000 values or 1 GB of copies");
  }

  ValueId define(std::string_view name, std::string_view what) {
    count(1, name.size());
    graph_.values.push_back({.name = std::string(name)});
    const auto id = static_cast<ValueId>(graph_.values.size() - 1);
    require(names_.emplace(name, id).second,
            std::string(what) + " is called '" + std::string(name) + "' as another value is");
    return id;
  }

  void constant(std::string_view name, const Tensor& tensor) {
    const auto found = names_.find(name);  // IR 3 lists initializers as inputs too
    const ValueId id = found != names_.end() ? found->second : define(name, "an initializer");
    graph_[id].constant = tensor;
    graph_[id].dtype = tensor.dtype();
    std::erase(graph_.inputs, id);
  }

  // None if it is omitted here or by the caller of the function.
  ValueId input_of(const onnx::Node& node, std::string_view name) {
    const ValueId id = name.empty() ? kNoValue : find(name);
    if (id == kNoValue && !name.empty() && !names_.contains(name))
      refuse(node, "nothing makes its input '" + std::string(name) + "'");
    return id;
  }

  void type_of(const onnx::ValueInfo& info) {
    const auto found = names_.find(info.name);
    if (found == names_.end() || !info.type) return;
    Value& value = graph_[found->second];
    if (value.dtype == DType::none) set_type(value, *info.type);
  }

  std::vector<const onnx::Node*> in_order(const std::vector<onnx::Node>& list);
  void collect_needs(const onnx::Node& node, std::set<std::string_view>& needs);
  void add(const onnx::Node& from);
  void call(const onnx::Node& from, const onnx::Function& function);
  const onnx::Function* function_of(const onnx::Node& node) const;
  void attributes(const onnx::Node& from, Node& node);

  Shared& shared_;
  Graph& graph_;
  Importer* around_;
  const onnx::Opsets& opsets_;
  const AttributesByName* given_ = nullptr;  // attributes of the call being inlined
  std::unordered_map<std::string_view, ValueId> names_;
  int calls_ = 0;
};

// Collects the names a node needs from this graph: its inputs and the captures of its subgraphs.
void Importer::collect_needs(const onnx::Node& node, std::set<std::string_view>& needs) {
  for (const std::string_view input : node.inputs)
    if (!input.empty()) needs.insert(input);
  const auto body = [&](const onnx::Graph& graph) {
    for (const onnx::Node& inner : graph.nodes) collect_needs(inner, needs);
    for (const onnx::ValueInfo& output : graph.outputs) needs.insert(output.name);
  };
  for (const onnx::Attribute& a : node.attributes) {
    if (a.graph) body(*a.graph);
    for (const auto& graph : a.graphs) body(*graph);
  }
}

// Stable Kahn's algorithm: sorted files keep their order.
std::vector<const onnx::Node*> Importer::in_order(const std::vector<onnx::Node>& list) {
  std::unordered_map<std::string_view, std::size_t> maker;
  for (std::size_t i = 0; i < list.size(); ++i)
    for (const std::string_view output : list[i].outputs)
      if (!output.empty() && !maker.emplace(output, i).second)
        refuse(list[i], "'" + std::string(output) + "' is made by another node already");
  std::vector<std::vector<std::size_t>> users(list.size());
  std::vector<std::size_t> waits(list.size(), 0);
  for (std::size_t i = 0; i < list.size(); ++i) {
    std::set<std::string_view> needs;
    collect_needs(list[i], needs);
    for (const std::string_view name : needs)
      if (const auto made = maker.find(name); made != maker.end()) {
        if (made->second == i)
          refuse(list[i], "it needs its own output '" + std::string(name) + "'");
        users[made->second].push_back(i);
        ++waits[i];
      }
  }
  std::set<std::size_t> ready;
  for (std::size_t i = 0; i < list.size(); ++i)
    if (waits[i] == 0) ready.insert(i);
  std::vector<const onnx::Node*> order;
  while (!ready.empty()) {
    const std::size_t i = *ready.begin();
    ready.erase(ready.begin());
    order.push_back(&list[i]);
    for (const std::size_t user : users[i])
      if (--waits[user] == 0) ready.insert(user);
  }
  if (order.size() < list.size()) {
    const auto stuck =
        std::find_if(waits.begin(), waits.end(), [](std::size_t n) { return n > 0; });
    refuse(list[static_cast<std::size_t>(stuck - waits.begin())], "it is part of a cycle");
  }
  return order;
}

const onnx::Function* Importer::function_of(const onnx::Node& node) const {
  if (shared_.functions.empty()) return nullptr;
  const auto found = shared_.functions.find({node.domain, node.op, node.overload});
  return found == shared_.functions.end() ? nullptr : found->second;
}

void Importer::attributes(const onnx::Node& from, Node& node) {
  for (const onnx::Attribute& own : from.attributes) {
    const onnx::Attribute* a = &own;
    if (!own.refers_to.empty()) {
      const auto found =
          given_ != nullptr ? given_->find(own.refers_to) : AttributesByName::const_iterator{};
      if (given_ == nullptr)
        refuse(from,
               "attribute '" + std::string(own.name) + "' refers to a function's, outside of one");
      if (found == given_->end()) continue;  // not given: the operator's default applies
      a = found->second;
    }
    const Kind kind = kind_of(*a);
    count(1, bytes_of(*a));
    if (kind == Kind::graph) {
      auto body = std::make_shared<Graph>();
      Importer inner(shared_, *body, this, opsets_);
      inner.given_ = given_;
      inner.calls_ = calls_;
      require(a->graph != nullptr, "a graph attribute without a graph");
      inner.run(*a->graph);
      node.subgraphs.emplace_back(std::string(own.name), std::move(body));
    } else if (kind != Kind::graphs) {
      node.attributes.set(own.name, plain(*a, kind));
    }
  }
}

void Importer::add(const onnx::Node& from) {
  if (++shared_.nodes > kMaxNodes) refuse(from, "the model has more than 4,000,000 nodes");
  count(1 + from.inputs.size(), from.name.size() + from.op.size() + from.domain.size());
  if (const onnx::Function* function = function_of(from)) return call(from, *function);
  Node node{.name = std::string(from.name),
            .op = std::string(from.op),
            .domain = std::string(from.domain)};
  const auto version = opsets_.find(from.domain);
  if (version == opsets_.end())
    refuse(from,
           "the model does not say which version of '" + std::string(from.domain) + "' it means");
  node.version = static_cast<int>(version->second);
  for (const std::string_view input : from.inputs) {
    node.inputs.push_back(input_of(from, input));
  }
  try {
    attributes(from, node);
    for (const std::string_view output : from.outputs)
      node.outputs.push_back(output.empty() ? kNoValue : define(output, "an output"));
  } catch (const Error& error) {
    refuse(from, std::string(error.reason()));
  }
  graph_.nodes.push_back(std::move(node));
}

// Inlines a function at its call, in its own name scope.
void Importer::call(const onnx::Node& from, const onnx::Function& function) {
  if (calls_ >= kMaxCallDepth) refuse(from, "functions call each other more than 32 deep");
  Importer body(shared_, graph_, nullptr, function.opsets);
  body.deeper(calls_ + 1);
  body.count(function.inputs.size() + function.nodes.size() + function.defaults.size(), 0);
  AttributesByName given;
  for (const onnx::Attribute& a : function.defaults) given[a.name] = &a;
  std::vector<onnx::Attribute> resolved;  // with references to the caller's attributes resolved
  resolved.reserve(from.attributes.size());
  for (const onnx::Attribute& a : from.attributes) {
    const onnx::Attribute* actual = &a;
    if (!a.refers_to.empty()) {
      if (given_ == nullptr || !given_->contains(a.refers_to)) continue;
      actual = given_->at(a.refers_to);
    }
    given[a.name] = actual;
  }
  body.with(&given);
  if (from.inputs.size() > function.inputs.size())
    refuse(from, "more inputs than its function takes");
  for (std::size_t i = 0; i < function.inputs.size(); ++i) {
    const std::string_view name = i < from.inputs.size() ? from.inputs[i] : std::string_view();
    body.bind(function.inputs[i], input_of(from, name));
  }
  body.nodes(function.nodes);
  for (std::size_t i = 0; i < from.outputs.size(); ++i) {
    if (from.outputs[i].empty()) continue;
    if (i >= function.outputs.size()) refuse(from, "more outputs than its function gives");
    const ValueId id = body.find(function.outputs[i]);
    if (id == kNoValue)
      refuse(from, "its function does not make '" + std::string(function.outputs[i]) + "'");
    if (!names_.emplace(from.outputs[i], id).second)
      refuse(from, "'" + std::string(from.outputs[i]) + "' is made by another node already");
  }
}

void check_versions(const onnx::Model& model) {
  require(model.ir_version >= 1 && model.ir_version <= kNewestIr,
          "IR version " + std::to_string(model.ir_version) + " is not known (1 to 13 are)");
  for (const auto& [domain, version] : model.opsets)
    if (domain.empty())
      require(version >= kOldestOpset && version <= kNewestOpset,
              "opset " + std::to_string(version) + " is not known (1 to 28 are)");
}

}  // namespace

const Graph* Node::subgraph(std::string_view attribute) const {
  for (const auto& [key, graph] : subgraphs)
    if (key == attribute) return graph.get();
  return nullptr;
}

std::string describe(const Node& node) {
  return node.op + " node" + (node.name.empty() ? "" : " '" + node.name.substr(0, 200) + "'");
}

Graph import_onnx(const onnx::Model& model) {
  check_versions(model);
  Graph graph;
  Shared shared(model);
  Importer(shared, graph, nullptr, model.opsets).run(model.graph);
  return graph;
}

}  // namespace sluice::engine

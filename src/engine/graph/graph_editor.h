// Changes to a specialized graph: who makes a value, who uses it, and both kept right while
// nodes come and go.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "engine/graph/made_tensors.h"
#include "engine/graph/tensor_type.h"

namespace sluice::engine {

using NodeId = int;  // stays valid until finish()
inline constexpr NodeId kNoNode = -1;

// Constants that passes make of a model's own: each once, however many shapes the model is
// compiled for, as long as a graph has it. Safe to use from several threads at once.
class Derived {
 public:
  // `graph` is the model's; what is made of other constants is not kept.
  explicit Derived(const Graph& graph);

  // `way` says all that the result depends on besides `from`.
  Tensor get(std::span<const Tensor> from, const std::string& way,
             const std::function<Tensor()>& make);

  std::size_t count() const;  // that are kept now

 private:
  struct Made {
    std::vector<Tensor> from;  // so that their addresses stay theirs
    Tensor result;
  };

  mutable Mutex mutex_;
  std::multiset<const void*> lasting_ GUARDED_BY(mutex_);  // a view has the address of its whole
  MadeTensors<std::pair<std::vector<const void*>, std::string>, Made> made_ GUARDED_BY(mutex_);
};

class Editor {
 public:
  // `derived`, if any, outlives it.
  explicit Editor(Graph& graph, Derived* derived = nullptr);

  Graph& graph() noexcept { return *graph_; }
  const Graph& graph() const noexcept { return *graph_; }
  // All that have not been removed, the makers of a value before its users; nodes that are
  // added in between are not among them.
  std::vector<NodeId> nodes() const;
  const Node& node(NodeId id) const { return graph_->nodes[static_cast<std::size_t>(id)]; }
  // For its attributes, name and operator; inputs change by set_input.
  Node& node(NodeId id) { return graph_->nodes[static_cast<std::size_t>(id)]; }
  bool removed(NodeId id) const { return removed_[static_cast<std::size_t>(id)]; }

  // kNoNode: an input, a constant, or left out.
  NodeId maker(ValueId value) const;
  // The same, where it is this operator of ONNX (or of `domain`) and kNoNode otherwise.
  NodeId maker(ValueId value, std::string_view op, std::string_view domain = "") const;
  const std::vector<NodeId>& users(ValueId value) const;  // one entry for each use
  bool is_output(ValueId value) const;                    // of the graph
  // One node uses it, once, and the graph does not give it out.
  bool used_once(ValueId value) const { return users(value).size() == 1 && !is_output(value); }
  NodeId only_user(ValueId value) const { return used_once(value) ? users(value)[0] : kNoNode; }

  TensorType type(ValueId value) const { return type_of((*graph_)[value]); }
  const Tensor& constant(ValueId value) const;  // none where it is no constant
  // Of a constant with one element of a real type.
  std::optional<float> scalar(ValueId value) const;

  ValueId add_constant(std::string name, Tensor tensor);
  // A constant that depends on constants and on what `way` says.
  ValueId derive(const std::vector<ValueId>& from, const std::string& way,
                 const std::function<Tensor()>& make);
  ValueId add_value(std::string name, const TensorType& type);
  // It comes in the order where `at` does; where that is left out, where its output was made
  // before, or as soon as what it needs is there.
  NodeId add(Node node, NodeId at = kNoNode);
  void set_input(NodeId node, std::size_t i, ValueId to);
  void add_input(NodeId node, ValueId value);
  // Output 0 of `node` is `value` from now on; who made it before no longer does.
  void set_output(NodeId node, ValueId value);
  // The graph gives out `value` in the place of its output i.
  void set_graph_output(std::size_t i, ValueId value);
  // Whoever used `from` uses `to`, the graph's outputs too.
  void replace(ValueId from, ValueId to);
  void remove(NodeId node);

  // Drops what nobody uses and puts the nodes in order.
  void finish();

 private:
  void use(NodeId node, ValueId value);
  void unuse(NodeId node, ValueId value);
  void remove_dead();
  NodeId place_of(const Node& added) const;

  Graph* graph_;
  Derived* derived_;
  std::vector<bool> removed_;               // by node
  std::vector<NodeId> place_;               // by node: the one in the order it came in
  std::vector<NodeId> maker_;               // by value
  std::vector<std::vector<NodeId>> users_;  // by value
  std::vector<int> given_;                  // by value: outputs of the graph that are it
};

// A node of the operators that only fusing makes.
Node fused(std::string op, std::string name, std::vector<ValueId> inputs,
           std::vector<ValueId> outputs);
inline constexpr std::string_view kFused = "sluice";  // their domain

}  // namespace sluice::engine

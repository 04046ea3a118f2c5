// Edits a specialized graph, and keeps the producer and the users of every value up to date.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "engine/graph/tensor_cache.h"
#include "engine/graph/tensor_type.h"

namespace sluice::engine {

using NodeId = int;  // stays valid until finish()
inline constexpr NodeId kNoNode = -1;

// Constants that passes derive from the model's constants. Each is computed once for all shapes the
// model is compiled for, and kept as long as a graph uses it. Thread-safe.
class DerivedConstants {
 public:
  // `graph` is the model's; constants derived from other constants are not kept.
  explicit DerivedConstants(const Graph& graph);

  // `key` identifies everything that the result depends on besides `from`.
  Tensor get(std::span<const Tensor> from, const std::string& key,
             const std::function<Tensor()>& make);

  std::size_t count() const;  // currently kept

 private:
  struct Made {
    std::vector<Tensor> from;  // keeps their addresses from being reused
    Tensor result;
  };

  mutable Mutex mutex_;
  std::multiset<const void*> persistent_
      GUARDED_BY(mutex_);  // a view shares the address of its base
  TensorCache<std::pair<std::vector<const void*>, std::string>, Made> made_ GUARDED_BY(mutex_);
};

class GraphEditor {
 public:
  // `derived`, if any, must outlive it.
  explicit GraphEditor(Graph& graph, DerivedConstants* derived = nullptr);

  Graph& graph() noexcept { return *graph_; }
  const Graph& graph() const noexcept { return *graph_; }
  // All nodes that are not removed, in topological order, without nodes added since finish().
  std::vector<NodeId> nodes() const;
  const Node& node(NodeId id) const { return graph_->nodes[static_cast<std::size_t>(id)]; }
  // For changes of attributes, name and operator; inputs change through set_input.
  Node& node(NodeId id) { return graph_->nodes[static_cast<std::size_t>(id)]; }
  bool removed(NodeId id) const { return removed_[static_cast<std::size_t>(id)]; }

  // kNoNode for an input, a constant or an omitted value.
  NodeId producer(ValueId value) const;
  // The same, but kNoNode unless it is this operator of ONNX (or of `domain`).
  NodeId producer(ValueId value, std::string_view op, std::string_view domain = "") const;
  const std::vector<NodeId>& users(ValueId value) const;  // one entry for each use
  bool is_output(ValueId value) const;                    // of the graph
  // Exactly one use, and not an output of the graph.
  bool used_once(ValueId value) const { return users(value).size() == 1 && !is_output(value); }
  NodeId only_user(ValueId value) const { return used_once(value) ? users(value)[0] : kNoNode; }

  TensorType type(ValueId value) const { return type_of((*graph_)[value]); }
  const Tensor& constant(ValueId value) const;  // empty if it is no constant
  // The exact value of a floating-point constant with one element.
  std::optional<double> scalar(ValueId value) const;

  ValueId add_constant(std::string name, Tensor tensor);
  // A constant computed from other constants; `key` identifies the computation.
  ValueId derive(const std::vector<ValueId>& from, const std::string& key,
                 const std::function<Tensor()>& make);
  ValueId add_value(std::string name, const TensorType& type);
  // Orders the node at the position of `at`. If omitted: at the position of the previous producer
  // of its output, or as early as its inputs allow.
  NodeId add(Node node, NodeId at = kNoNode);
  void set_input(NodeId node, std::size_t i, ValueId to);
  void add_input(NodeId node, ValueId value);
  // Makes `value` output 0 of `node`, and detaches its previous producer.
  void set_output(NodeId node, ValueId value);
  // Replaces output i of the graph by `value`.
  void set_graph_output(std::size_t i, ValueId value);
  // Replaces all uses of `from` by `to`, including graph outputs.
  void replace(ValueId from, ValueId to);
  void remove(NodeId node);

  // Removes dead nodes and sorts the nodes topologically.
  void finish();

 private:
  void use(NodeId node, ValueId value);
  void unuse(NodeId node, ValueId value);
  void remove_dead();
  NodeId position_of(const Node& added) const;

  Graph* graph_;
  DerivedConstants* derived_;
  std::vector<bool> removed_;               // by node
  std::vector<NodeId> position_;            // by node: its position in the order
  std::vector<NodeId> producer_;            // by value
  std::vector<std::vector<NodeId>> users_;  // by value
  std::vector<int> output_uses_;            // by value: uses as a graph output
};

// Creates a node of a fused operator.
Node fused(std::string op, std::string name, std::vector<ValueId> inputs,
           std::vector<ValueId> outputs);
inline constexpr std::string_view kFused = "sluice";  // the domain of fused operators

}  // namespace sluice::engine

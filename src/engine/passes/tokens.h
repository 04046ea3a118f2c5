// The region of a graph that processes each token of its sequences independently, apart from the
// attention between them.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/graph/graph_editor.h"

namespace sluice::engine {

// How a node of the region receives an input once padding is removed.
enum class TokenInput { unchanged, by_token, by_position, removed };
using TokenInputs = std::vector<TokenInput>;

class TokenRegion {
 public:
  // Throws unavailable with the reason if a node outside the region might read what it computes
  // for padding. `proved`: the mask is already known to be a padding mask.
  TokenRegion(const GraphEditor& edit, bool proved);

  std::int64_t batch() const noexcept { return batch_; }
  std::int64_t length() const noexcept { return length_; }
  ValueId mask() const noexcept { return mask_; }  // the graph's input
  // A node reads the first position of every sequence.
  bool looks_at_first() const noexcept { return looks_at_first_; }
  const std::map<NodeId, TokenInputs>& nodes() const noexcept { return nodes_; }

  // The number of leading axes that index tokens: 2 for [batch, length, ...], 1 for
  // [batch * length, ...], 0 for any other shape.
  int lead(const Shape& shape) const;

  bool has(NodeId id) const { return nodes_.contains(id); }
  bool takes_tokens(NodeId user, std::size_t input) const;
  // Whether `user` belongs to the region and reads `value` token by token only.
  bool takes_tokens_only(NodeId user, ValueId value) const;
  // x[:, 0] or x[:, 0:1].
  bool picks_first(const Node& node) const;

 private:
  void find_mask(bool proved);
  void grow_region();
  void follow_attention();
  void find_zeros();
  bool may_read_padding(NodeId user, ValueId value) const;
  void shrink_region();
  void check_boundary();
  std::optional<TokenInput> broadcast_input(ValueId value, const Shape& out) const;
  std::optional<TokenInputs> elementwise_inputs(const Node& node) const;
  std::optional<TokenInputs> view_inputs(const Node& node, std::size_t input) const;
  std::optional<TokenInputs> row_inputs(const Node& node,
                                        std::initializer_list<std::size_t> tokens) const;
  std::optional<TokenInputs> attention_inputs(const Node& node) const;
  ValueId source_of(ValueId value) const;
  std::optional<TokenInputs> token_inputs(NodeId id) const;
  void add_neighbors(NodeId id, std::vector<NodeId>& open) const;
  bool would_take_tokens(NodeId user, ValueId value) const;

  const GraphEditor& edit_;
  std::int64_t batch_ = 0, length_ = 0;
  ValueId mask_ = kNoValue;
  std::map<NodeId, TokenInputs> nodes_;
  std::set<ValueId> after_attention_;  // values that depend on attention
  std::set<ValueId> zeroed_;           // where there is no token
  bool looks_at_first_ = false;
};

bool is_fused(const Node& node, std::string_view op);
// An ONNX operator that computes every element by itself.
bool is_elementwise(const Node& node);

}  // namespace sluice::engine

// The part of a graph that works on each token of its sequences by itself, but for the attention
// among them.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/graph/graph_editor.h"

namespace sluice::engine {

// How a node of the part is given an input.
enum class Take { as_it_is, by_token, by_position, not_at_all };
using Takes = std::vector<Take>;

class Tokens {
 public:
  // Throws unavailable, with the reason, where it is not certain that nobody would see it if
  // what the part computes for padding were zeros. `proved`: that masks are such is known.
  Tokens(const Editor& edit, bool proved);

  std::int64_t batch() const noexcept { return batch_; }
  std::int64_t length() const noexcept { return length_; }
  ValueId mask() const noexcept { return mask_; }  // the graph's input
  // Something looks at the first place of every sequence.
  bool looks_at_first() const noexcept { return looks_at_first_; }
  const std::map<NodeId, Takes>& nodes() const noexcept { return nodes_; }

  // How many axes a shape begins with that are tokens: two of [batch, length, ...], one of
  // [batch * length, ...], none of others.
  int lead(const Shape& shape) const;

  bool has(NodeId id) const { return nodes_.contains(id); }
  bool takes_tokens(NodeId user, std::size_t input) const;
  // Whether all that a node takes of a value is its tokens, and it is one of the part.
  bool takes_tokens_only(NodeId user, ValueId value) const;

 private:
  void find_mask(bool proved);
  void grow();
  void follow_attention();
  void find_zeros();
  bool minds_zeros(NodeId user, ValueId value) const;
  void shrink();
  void check_ends();
  std::optional<Take> stretched(ValueId value, const Shape& out) const;
  std::optional<Takes> elements(const Node& node) const;
  std::optional<Takes> views(const Node& node, std::size_t input) const;
  std::optional<Takes> rows(const Node& node, std::initializer_list<std::size_t> tokens) const;
  std::optional<Takes> attention(const Node& node) const;
  ValueId source_of(ValueId value) const;
  std::optional<Takes> takes(NodeId id) const;
  void add_neighbours(NodeId id, std::vector<NodeId>& open) const;
  bool would_take_tokens(NodeId user, ValueId value) const;
  bool picks_first(const Node& node) const;

  const Editor& edit_;
  std::int64_t batch_ = 0, length_ = 0;
  ValueId mask_ = kNoValue;
  std::map<NodeId, Takes> nodes_;
  std::set<ValueId> behind_;  // that depend on attention
  std::set<ValueId> zero_;    // where there is no token
  bool looks_at_first_ = false;
};

bool is_fused(const Node& node, std::string_view op);

}  // namespace sluice::engine

// Rewrites the token region of a graph for packed (varlen) sequences: [batch, length, ...] becomes
// [1, tokens, ...] inside. Derived classes say how values enter and leave the region.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "engine/graph/graph_editor.h"
#include "engine/passes/padding.h"
#include "engine/passes/tokens.h"

namespace sluice::engine {

class Unpadder {
 public:
  Unpadder(GraphEditor& edit, const TokenRegion& region, std::int64_t tokens)
      : edit_(edit), region_(region), tokens_(tokens) {}
  virtual ~Unpadder() = default;

  void run();

 protected:
  // The tokens of a value from outside the region, [1, tokens, ...]; its first `lead` axes index
  // all positions.
  virtual ValueId enter(ValueId value, int lead) = 0;
  // Serves what reads `value` outside the region. It was of type `padded`, and is packed now.
  virtual void leave(ValueId value, const TensorType& padded) = 0;

  Shape packed(const Shape& shape, int lead) const;
  // Rows [1, tokens, ...] of a value whose first `lead` axes hold `from` rows, by an index for each
  // token.
  ValueId gather_rows(ValueId value, std::int64_t from, int lead, ValueId index);
  ValueId new_input(const std::string& name, const TensorType& type);

  GraphEditor& edit_;
  const TokenRegion& region_;
  const std::int64_t tokens_;
  ValueId positions_ = kNoValue, cu_seqlens_ = kNoValue;  // inputs that derived classes add

 private:
  void pack_inputs(NodeId id, const TokenInputs& uses);
  void pack_outputs(NodeId id);
  void change_shape(NodeId id);

  std::map<std::pair<ValueId, ValueId>, ValueId> gathered_;
};

// The graph keeps its inputs and outputs, and gets those of a VarlenBatch.
class PaddedIo final : public Unpadder {
 public:
  PaddedIo(GraphEditor& edit, const TokenRegion& region, std::int64_t tokens);

 private:
  ValueId enter(ValueId value, int lead) override;
  void leave(ValueId value, const TensorType& padded) override;

  ValueId rows_, token_index_;
};

// See SkipPadding::packed_io.
class PackedIo final : public Unpadder {
 public:
  PackedIo(GraphEditor& edit, const TokenRegion& region, std::int64_t tokens);

  // Replaces the graph's inputs, after run().
  void set_inputs();
  // See SkipPadding.
  std::optional<std::int64_t> padding_id() const noexcept { return padding_id_; }
  const std::string& padded_input() const noexcept { return padded_input_; }

 private:
  ValueId enter(ValueId value, int lead) override;
  void leave(ValueId value, const TensorType& padded) override;
  ValueId one_position_each(ValueId constant);
  // The padding's id, and the input that is compared with it.
  struct Counted {
    std::int64_t padding;
    ValueId ids;
  };
  std::optional<Counted> padding_not_counted(ValueId value) const;
  ValueId count_of_tokens(ValueId value);
  ValueId computed_of_tokens(NodeId id);
  bool is_read(NodeId id);
  void pool(NodeId user, ValueId value, const TensorType& padded);

  std::map<ValueId, ValueId> inputs_;  // packed, by the model's own
  std::map<NodeId, bool> read_;
  std::map<ValueId, ValueId> entered_;
  std::optional<std::int64_t> padding_id_;
  std::string padded_input_;
};

}  // namespace sluice::engine

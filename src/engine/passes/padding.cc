#include "engine/passes/padding.h"

#include <algorithm>
#include <vector>

#include "engine/passes/match.h"
#include "engine/passes/unpadder.h"

namespace sluice::engine {

PaddedIo::PaddedIo(GraphEditor& edit, const TokenRegion& region, std::int64_t tokens)
    : Unpadder(edit, region, tokens) {
  const auto types = varlen_types(region.batch(), region.length(), tokens);
  const std::string mask = edit.graph()[region.mask()].name;
  ValueId* const inputs[] = {&rows_, &positions_, &token_index_, &cu_seqlens_};
  for (std::size_t i = 0; i < types.size(); ++i)
    *inputs[i] = new_input(varlen_input_name(mask, i, region.looks_at_first()), types[i]);
}

ValueId PaddedIo::enter(ValueId value, int lead) {
  return gather_rows(value, region_.batch() * region_.length(), lead, rows_);
}

// The padded value takes the name of `value`.
void PaddedIo::leave(ValueId value, const TensorType& padded) {
  const std::vector<NodeId> users = edit_.users(value);
  const std::string name = edit_.graph()[value].name;
  const ValueId output = edit_.add_value(name, padded);
  edit_.graph()[value].name += " of tokens";
  edit_.replace(value, output);
  for (const NodeId user : users)
    for (std::size_t i = 0; i < edit_.node(user).inputs.size(); ++i)
      if (edit_.node(user).inputs[i] == output && region_.takes_tokens(user, i))
        edit_.set_input(user, i, value);
  if (region_.lead(padded.shape) == 2) {
    edit_.add(fused("PadTokens", name + " padded", {value, token_index_}, {output}));
    return;
  }
  Shape tokens = edit_.type(value).shape, by_position{region_.batch(), region_.length()};
  for (int i = 1; i < tokens.rank(); ++i) by_position.push_back(tokens[i]);
  tokens.insert(0, 1);
  const ValueId made = edit_.add_value(name + " by position", {padded.dtype, by_position});
  edit_.add(
      fused("PadTokens", name + " padded", {reshaped(edit_, value, tokens), token_index_}, {made}));
  edit_.add(reshape_node(edit_, name + " as rows", made, output));
}

int skip_padding(GraphEditor& edit, SkipPadding& how) {
  const TokenRegion region(edit, how.proved);
  const std::vector<ValueId>& inputs = edit.graph().inputs;
  how.mask = {static_cast<std::size_t>(std::ranges::find(inputs, region.mask()) - inputs.begin()),
              region.looks_at_first()};
  if (how.tokens == 0) return 0;
  if (how.packed_io) {
    PackedIo io(edit, region, how.tokens);
    io.run();
    io.set_inputs();
    how.padding_id = io.padding_id();
    how.padded_input = io.padded_input();
  } else {
    PaddedIo(edit, region, how.tokens).run();
  }
  return static_cast<int>(region.nodes().size());
}

}  // namespace sluice::engine

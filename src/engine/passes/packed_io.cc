#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "engine/passes/match.h"
#include "engine/passes/unpadder.h"

namespace sluice::engine {
namespace {

// The pooling that a node outside the region does; none if it does something else.
std::optional<kernels::TokenPooling> pooling_of(const GraphEditor& edit, const TokenRegion& region,
                                                NodeId id) {
  const Node& node = edit.node(id);
  if (region.picks_first(node)) return kernels::TokenPooling::first;
  if (!is_onnx(node, "ReduceSum")) return std::nullopt;
  const auto axes = list_of(edit, id, 1, "axes");
  const bool over_tokens = axes && *axes == std::vector<std::int64_t>{1};
  return over_tokens ? std::optional(kernels::TokenPooling::sum) : std::nullopt;
}

[[noreturn]] void refuse(const std::string& why) { throw Error(Code::unavailable, why); }

}  // namespace

PackedIo::PackedIo(GraphEditor& edit, const TokenRegion& region, std::int64_t tokens)
    : Unpadder(edit, region, tokens) {
  positions_ = new_input("positions", {DType::i32, {1, tokens}});
  cu_seqlens_ = new_input("cu_seqlens", {DType::i32, {region.batch() + 1}});
}

ValueId PackedIo::enter(ValueId value, int lead) {
  if (const auto found = entered_.find(value); found != entered_.end()) return found->second;
  const std::vector<ValueId>& inputs = edit_.graph().inputs;
  const std::string name = edit_.graph()[value].name;
  const NodeId producer = edit_.producer(value);
  if (lead != 2) refuse("'" + name + "' is computed from whole sequences");
  ValueId made = kNoValue;
  if (edit_.constant(value)) {
    made = gather_rows(one_position_each(value), region_.length(), 1, positions_);
  } else if (std::ranges::find(inputs, value) != inputs.end()) {
    const TensorType type = edit_.type(value);
    made = inputs_[value] = new_input(name, {type.dtype, packed(type.shape, 2)});
  } else if (const auto counted = padding_not_counted(value)) {
    const std::string& from = edit_.graph()[counted->ids].name;
    if (padding_id_ && (*padding_id_ != counted->padding || padded_input_ != from))
      refuse("positions that are counted in two ways");
    padding_id_ = counted->padding;
    padded_input_ = from;
    made = count_of_tokens(value);
  } else if (producer != kNoNode && is_elementwise(edit_.node(producer))) {
    made = computed_of_tokens(producer);
  } else {
    refuse("'" + name + "' is computed from whole sequences, before the model's tokens");
  }
  return entered_[value] = made;
}

// A node outside the region, once more for the tokens alone.
ValueId PackedIo::computed_of_tokens(NodeId id) {
  Node node = edit_.node(id);
  const ValueId value = node.outputs[0];
  const TensorType type = edit_.type(value);
  for (ValueId& input : node.inputs)
    if (input != kNoValue && !(edit_.constant(input) && edit_.type(input).shape.size() == 1))
      input = enter(input, region_.lead(edit_.type(input).shape));
  node.name += " of tokens";
  node.outputs = {edit_.add_value(edit_.graph()[value].name + " of tokens",
                                  {type.dtype, packed(type.shape, 2)})};
  const ValueId made = node.outputs[0];
  edit_.add(std::move(node));
  return made;
}

// A constant [batch, length, ...] that is the same for every sequence, as [length, ...].
ValueId PackedIo::one_position_each(ValueId value) {
  const Tensor constant = edit_.constant(value);
  Shape shape{region_.length()};
  for (int i = 2; i < constant.rank(); ++i) shape.push_back(constant.shape()[i]);
  const std::size_t bytes = byte_size(shape, constant.dtype());
  const auto* const data = static_cast<const std::byte*>(constant.data());
  for (std::int64_t i = 1; i < region_.batch(); ++i)
    if (std::memcmp(data, data + static_cast<std::size_t>(i) * bytes, bytes) != 0)
      refuse("'" + edit_.graph()[value].name + "' differs between the sequences of a batch");
  return derived(edit_, {value}, "the first of a batch", [&] {
    return Tensor::view(constant.dtype(), shape, constant.data(),
                        std::make_shared<Tensor>(constant));
  });
}

// RoBERTa counts the tokens up to each that are not padding, CumSum(Cast(Not(Equal(ids,
// padding)))).
std::optional<PackedIo::Counted> PackedIo::padding_not_counted(ValueId value) const {
  const auto step = [&](ValueId from, std::string_view op) -> const Node* {
    const NodeId id = edit_.producer(from, op);
    return id == kNoNode ? nullptr : &edit_.node(id);
  };
  const Node* const sum = step(value, "CumSum");
  if (sum == nullptr || sum->attributes.flag("exclusive") || sum->attributes.flag("reverse"))
    return std::nullopt;
  const auto axis = integers(edit_, sum->inputs[1]);
  if (!axis || axis->size() != 1 || ((*axis)[0] != 1 && (*axis)[0] != -1)) return std::nullopt;
  const Node* const cast = step(sum->inputs[0], "Cast");
  const Node* const negated = cast != nullptr ? step(cast->inputs[0], "Not") : nullptr;
  const Node* const equal = negated != nullptr ? step(negated->inputs[0], "Equal") : nullptr;
  if (equal == nullptr || edit_.producer(equal->inputs[0]) != kNoNode ||
      edit_.type(equal->inputs[0]).shape.rank() != 2)
    return std::nullopt;
  const auto padding = integers(edit_, equal->inputs[1]);
  if (!padding || padding->size() != 1) return std::nullopt;
  return Counted{(*padding)[0], equal->inputs[0]};
}

// The position of each token, from 1 on.
ValueId PackedIo::count_of_tokens(ValueId value) {
  const std::string name = edit_.graph()[value].name;
  const TensorType type{edit_.type(value).dtype, {1, tokens_}};
  const Tensor one(DType::i32, {1});
  one.values<std::int32_t>()[0] = 1;
  const ValueId counted = edit_.add_value(name + " as i32", {DType::i32, type.shape});
  edit_.add({.name = name + " from 1",
             .op = "Add",
             .domain = "",
             .version = 14,
             .inputs = {positions_, edit_.add_constant(name + "/one", one)},
             .outputs = {counted}});
  const ValueId made = edit_.add_value(name + " of tokens", type);
  Node cast{.name = name + " cast",
            .op = "Cast",
            .domain = "",
            .version = 13,
            .inputs = {counted},
            .outputs = {made}};
  cast.attributes.set("to", static_cast<std::int64_t>(type.dtype));
  edit_.add(std::move(cast));
  return made;
}

void PackedIo::leave(ValueId value, const TensorType& padded) {
  for (const NodeId user : std::vector<NodeId>(edit_.users(value)))
    if (!region_.takes_tokens_only(user, value) && is_read(user)) pool(user, value, padded);
}

// Whether an output of the graph depends on the node. What made the attention's masks has no use
// any more.
bool PackedIo::is_read(NodeId id) {
  const auto [found, is_new] = read_.try_emplace(id, false);
  if (!is_new) return found->second;
  const std::vector<ValueId>& outputs = edit_.node(id).outputs;
  const bool read = std::ranges::any_of(outputs, [&](ValueId value) {
    return value != kNoValue &&
           (edit_.is_output(value) ||
            std::ranges::any_of(edit_.users(value), [&](NodeId user) { return is_read(user); }));
  });
  return read_[id] = read;
}

// Replaces `user`, which makes one row of every sequence.
void PackedIo::pool(NodeId user, ValueId value, const TensorType& padded) {
  const Node node = edit_.node(user);
  const auto pooling = pooling_of(edit_, region_, user);
  if (!pooling || !is_fusable(padded.dtype) || region_.lead(padded.shape) != 2)
    refuse(describe(node) + " needs the padded value '" + edit_.graph()[value].name + "'");
  const std::int64_t n = padded.shape.size(2, padded.shape.rank());
  const ValueId made =
      edit_.add_value(node.name + " of tokens", {padded.dtype, {region_.batch(), n}});
  Node pooled = fused("PoolTokens", node.name,
                      {reshaped(edit_, value, {1, tokens_, n}), cu_seqlens_}, {made});
  pooled.attributes.set("pooling", std::string(to_string(*pooling)));
  edit_.remove(user);
  edit_.add(std::move(pooled));
  edit_.add(reshape_node(edit_, node.name + " as rows", made, node.outputs[0]));
}

void PackedIo::set_inputs() {
  std::vector<ValueId> packed;
  for (const ValueId input : edit_.graph().inputs)
    if (const auto found = inputs_.find(input); found != inputs_.end())
      packed.push_back(found->second);
  packed.insert(packed.end(), {positions_, cu_seqlens_});
  edit_.graph().inputs = packed;
}

}  // namespace sluice::engine

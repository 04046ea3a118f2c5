#include "kernels/attention/attention.h"

#include <limits>

#include "engine/exec/cuda/nodes/node_view.h"
#include "engine/graph/graph_editor.h"
#include "kernels/attention/flash_attention_sm90.h"

namespace sluice::engine::cuda {
namespace {

// Sets the strides of the mask along [batch, heads, queries, keys]; false if it does not broadcast
// to them.
bool place_mask(const Shape& mask, AttentionCall& call) {
  if (mask.rank() > 4) return false;
  const std::int64_t full[4] = {call.batch, call.heads, call.queries, call.keys};
  std::int64_t* const strides[4] = {&call.mask_batch, &call.mask_head, &call.mask_query,
                                    &call.mask_key};
  std::int64_t stride = 1;
  for (int i = 3; i >= 0; --i) {
    const int axis = i - (4 - mask.rank());
    const std::int64_t dim = axis >= 0 ? mask[axis] : 1;
    if (dim != 1 && dim != full[i]) return false;
    *strides[i] = dim == 1 ? 0 : stride;
    stride *= dim;
  }
  return true;
}

// Reads cu_seqlens for varlen attention; false if the inputs are not packed sequences.
bool take_sequences(const NodeView& view, AttentionCall& call) {
  const TensorType cu_seqlens = view.in(4);
  const std::int64_t max_seqlen = view.attributes().integer("max_seqlen", 0);
  if (cu_seqlens.dtype != DType::i32 || cu_seqlens.shape.rank() != 1 || cu_seqlens.shape[0] < 2 ||
      call.batch != 1 || call.queries != call.keys || view.has(3) || max_seqlen < 1 ||
      max_seqlen > call.queries)
    return false;
  call.tokens = call.queries;
  call.batch = static_cast<int>(cu_seqlens.shape[0] - 1);
  call.queries = call.keys = static_cast<int>(max_seqlen);
  return true;
}

// The call without pointers; none if the inputs are not supported.
std::optional<AttentionCall> call_of(const NodeView& view) {
  const bool packed = view.attributes().flag("packed");
  if (!view.has(0) || (!packed && !(view.has(1) && view.has(2)))) return std::nullopt;
  const TensorType q = view.in(0), k = packed ? q : view.in(1), v = packed ? q : view.in(2);
  AttentionCall call{};
  if (q.shape.rank() != 3 || k.shape.rank() != 3 || !(v.shape == k.shape) || k.dtype != q.dtype)
    return std::nullopt;
  const std::int64_t width = packed ? q.shape[2] / 3 : q.shape[2];
  const std::int64_t heads = view.attributes().integer("heads");
  for (const std::int64_t size : {q.shape[0], q.shape[1], k.shape[1], width, heads})
    if (size > std::numeric_limits<int>::max()) return std::nullopt;
  call.heads = static_cast<int>(heads);
  call.scale = view.attributes().real("scale", 1.0f);
  call.batch = static_cast<int>(q.shape[0]);
  call.queries = static_cast<int>(q.shape[1]);
  call.keys = static_cast<int>(k.shape[1]);
  if (call.heads <= 0 || call.keys <= 0 || width % call.heads != 0 || k.shape[0] != q.shape[0] ||
      k.shape[2] != q.shape[2])
    return std::nullopt;
  call.head_size = static_cast<int>(width / call.heads);
  call.q_row = call.k_row = call.v_row = q.shape[2];
  call.q_batch = call.q_row * call.queries;
  call.k_batch = call.v_batch = call.k_row * call.keys;
  call.out_batch = width * call.queries;
  if (view.has(3)) {
    const TensorType mask = view.in(3);
    call.has_mask = true;
    call.mask_is_f32 = mask.dtype == DType::f32;
    if (!(call.mask_is_f32 || mask.dtype == q.dtype) || !place_mask(mask.shape, call))
      return std::nullopt;
  }
  if (view.has(4) && !take_sequences(view, call)) return std::nullopt;
  return call;
}

AttentionCall with(AttentionCall call, const KernelArgs& args, std::size_t element) {
  const auto* const q = static_cast<const unsigned char*>(args.inputs[0]);
  const auto width =
      static_cast<std::size_t>(call.heads) * static_cast<std::size_t>(call.head_size);
  const bool packed = args.inputs.size() < 3 || args.inputs[1] == nullptr;
  call.q = q;
  call.k = packed ? q + width * element : args.inputs[1];
  call.v = packed ? q + 2 * width * element : args.inputs[2];
  call.mask = args.inputs.size() > 3 ? args.inputs[3] : nullptr;
  if (args.inputs.size() > 4) call.cu_seqlens = static_cast<const std::int32_t*>(args.inputs[4]);
  if (call.cu_seqlens != nullptr) call.live = args.live.counts;
  call.out = args.outputs[0];
  return call;
}

std::unique_ptr<Kernel> make_attention(const Graph& graph, const Node& node, Context& context) {
  const NodeView view(graph, node);
  const std::optional<AttentionCall> call = call_of(view);
  const DType type = view.in(0).dtype;
  if (!call || !is_computed_real(type) || call->head_size > kMaxNaiveHeadSize) return nullptr;
  if (view.out(0).shape.size() == 0) return nothing_to_do();
  const std::size_t element = bytes(type);
  if (type != DType::f32 && context.has_sm90() && flash_attention_sm90_supports(*call)) {
    prepare_flash_attention_sm90(real_type(type), call->head_size);
    return launched("flash attention, wgmma",
                    [c = *call, element, own = real_type(type)](const KernelArgs& args) {
                      flash_attention_sm90(own, with(c, args, element), args);
                    });
  }
  const bool flash = type != DType::f32 && context.code_capability() >= 80 &&
                     call->head_size <= kMaxFlashHeadSize && call->head_size % 8 == 0;
  if (flash && type == DType::f16) {
    prepare_flash_attention_f16(call->head_size);
    return launched("flash attention, tensor cores", [c = *call, element](const KernelArgs& args) {
      flash_attention_f16(with(c, args, element), args);
    });
  }
  if (flash) {
    prepare_flash_attention_bf16(call->head_size);
    return launched("flash attention, tensor cores", [c = *call, element](const KernelArgs& args) {
      flash_attention_bf16(with(c, args, element), args);
    });
  }
  return launched("attention", [c = *call, element, own = real_type(type)](const KernelArgs& args) {
    naive_attention(own, with(c, args, element), args);
  });
}

constexpr Maker kAttentionMakers[] = {{"Attention", kFused, make_attention}};

}  // namespace

std::span<const Maker> attention_kernels() { return kAttentionMakers; }

}  // namespace sluice::engine::cuda

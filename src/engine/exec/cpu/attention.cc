// Flash attention: one pass over the keys for a block of queries of one head.
#include <algorithm>
#include <array>
#include <limits>

#include "engine/exec/cpu/backend.h"
#include "engine/exec/cpu/nodes.h"
#include "kernels/attention/attention_cpu.h"
#include "kernels/common/each_task.h"
#include "memory/alloc/allocator.h"
#include "tensor/byte_size.h"

namespace sluice::engine::cpu {
namespace {

struct Sizes {
  std::size_t batch, heads, queries, keys, size;  // of the longest sequence, if varlen
  bool packed;
  float scale;
  std::array<std::size_t, 4> mask{};  // strides; 0 where it is broadcast
  bool varlen = false;                // packed sequences, delimited by cu_seqlens
  std::size_t tokens = 0;             // total rows, if varlen

  std::size_t width() const { return heads * size; }
  std::size_t row() const { return packed ? 3 * width() : width(); }  // of q, k and v
};

// The queries of a task: all of a head's if there are enough heads to keep all threads busy, since
// each task packs keys and values again.
std::size_t queries_of_a_task(const Sizes& sizes, std::size_t threads) {
  const std::size_t at_once = attention_queries(), heads = sizes.batch * sizes.heads;
  const std::size_t blocks = (sizes.queries + at_once - 1) / at_once;
  const std::size_t tasks = std::clamp<std::size_t>((2 * threads + heads - 1) / heads, 1, blocks);
  return (blocks + tasks - 1) / tasks * at_once;
}

class AttentionKernel final : public Kernel {
 public:
  AttentionKernel(Context& context, const Sizes& sizes)
      : workers_(context.workers),
        sizes_(sizes),
        rows_(queries_of_a_task(sizes, static_cast<std::size_t>(workers_.threads()))),
        slot_(memory::round_up(attention_scratch(sizes.keys, sizes.size), 16)) {}

  void run(const KernelArgs& args) const override {
    const std::size_t blocks = (sizes_.queries + rows_ - 1) / rows_;
    each_task(workers_, sizes_.batch * sizes_.heads * blocks,
              [&](std::size_t task, std::size_t slot) {
                const Entry entry = entry_of(args, task / blocks / sizes_.heads);
                const std::size_t query = task % blocks * rows_;
                if (query >= entry.queries) return;
                AttentionTask part = task_of(args, entry, task / blocks % sizes_.heads, query);
                part.scratch = static_cast<float*>(args.scratch) + slot * slot_;
                attend(part);
              });
    if (sizes_.varlen) clear_rest(args);
  }
  std::string_view name() const override { return "attention"; }
  std::size_t scratch() const override {
    return byte_size(Shape{workers_.threads(), static_cast<std::int64_t>(slot_)}, DType::f32);
  }

 private:
  // An entry of the batch: its rows in q, k and v.
  struct Entry {
    std::size_t index, query, queries, key, keys;
  };
  Entry entry_of(const KernelArgs& args, std::size_t i) const {
    const Sizes& s = sizes_;
    if (!s.varlen) return {i, i * s.queries, s.queries, i * s.keys, s.keys};
    const auto* const cu_seqlens = static_cast<const std::int32_t*>(args.inputs[4]);
    const auto tokens = static_cast<std::int32_t>(s.tokens);
    const std::int32_t first = std::clamp(cu_seqlens[i], 0, tokens);
    const std::int32_t end = std::clamp(cu_seqlens[i + 1], first, tokens);
    const auto at = static_cast<std::size_t>(first);
    const std::size_t count = std::min(static_cast<std::size_t>(end - first), s.queries);
    return {0, at, count, at, count};
  }

  // Clears the outputs of tokens that are in no sequence.
  void clear_rest(const KernelArgs& args) const {
    float* const out = static_cast<float*>(args.outputs[0]);
    const auto clear = [&](std::size_t from, std::size_t to) {
      if (from < to) std::fill(out + from * sizes_.width(), out + to * sizes_.width(), 0.0f);
    };
    std::size_t done = 0;
    for (std::size_t i = 0; i < sizes_.batch; ++i) {
      const Entry entry = entry_of(args, i);
      clear(done, entry.query);
      done = std::max(done, entry.query + entry.queries);
    }
    clear(done, sizes_.tokens);
  }

  AttentionTask task_of(const KernelArgs& args, const Entry& entry, std::size_t head,
                        std::size_t query) const {
    const Sizes& s = sizes_;
    const float* const q = floats(args, 0);
    const float* const k = s.packed ? q + s.width() : floats(args, 1);
    const float* const v = s.packed ? q + 2 * s.width() : floats(args, 2);
    const float* const mask = floats(args, 3);
    const std::size_t keys_at = entry.key * s.row() + head * s.size;
    const std::size_t mask_at = entry.index * s.mask[0] + head * s.mask[1] + query * s.mask[2];
    return {.queries = std::min(rows_, entry.queries - query),
            .keys = entry.keys,
            .size = s.size,
            .q = q + (entry.query + query) * s.row() + head * s.size,
            .k = k + keys_at,
            .v = v + keys_at,
            .q_row = s.row(),
            .k_row = s.row(),
            .v_row = s.row(),
            .scale = s.scale,
            .mask = mask != nullptr ? mask + mask_at : nullptr,
            .mask_query = s.mask[2],
            .mask_key = s.mask[3],
            .out = static_cast<float*>(args.outputs[0]) + (entry.query + query) * s.width() +
                   head * s.size,
            .out_row = s.width(),
            .scratch = nullptr};
  }

  compute::Workers& workers_;
  Sizes sizes_;
  std::size_t rows_, slot_;  // queries of a task; floats a thread needs
};

// False if it does not broadcast to the scores.
bool read_mask(const Shape& mask, Sizes& sizes) {
  const std::array<std::size_t, 4> scores{sizes.batch, sizes.heads, sizes.queries, sizes.keys};
  if (mask.rank() > 4) return false;
  std::size_t step = 1;
  for (int axis = mask.rank() - 1; axis >= 0; --axis) {
    const auto i = static_cast<std::size_t>(4 - mask.rank() + axis);
    const auto dim = static_cast<std::size_t>(mask[axis]);
    if (dim != 1 && dim != scores[i]) return false;
    sizes.mask[i] = dim == 1 ? 0 : step;
    step *= dim;
  }
  return true;
}

// Reads cu_seqlens; false if the inputs are not packed sequences.
bool read_cu_seqlens(const Node& node, const TensorType& cu_seqlens, const TensorType& mask,
                     Sizes& sizes) {
  const std::int64_t max_seqlen = node.attributes.integer("max_seqlen", 0);
  if (cu_seqlens.dtype != DType::i32 || cu_seqlens.shape.rank() != 1 || cu_seqlens.shape[0] < 2 ||
      sizes.batch != 1 || sizes.queries != sizes.keys || mask.dtype != DType::none ||
      max_seqlen < 1 || static_cast<std::size_t>(max_seqlen) > sizes.queries ||
      sizes.queries > std::numeric_limits<std::int32_t>::max())
    return false;
  sizes.varlen = true;
  sizes.tokens = sizes.queries;
  sizes.batch = static_cast<std::size_t>(cu_seqlens.shape[0] - 1);
  sizes.queries = sizes.keys = static_cast<std::size_t>(max_seqlen);
  return true;
}

std::unique_ptr<Kernel> make_attention(const Graph& graph, const Node& node, Context& context) {
  const TensorType q = input_type(graph, node, 0), mask = input_type(graph, node, 3);
  if (q.dtype != DType::f32 || q.shape.rank() != 3 || q.shape.size() == 0) return nullptr;
  const bool packed = node.attributes.flag("packed");
  const TensorType k = packed ? q : input_type(graph, node, 1);
  const TensorType v = packed ? q : input_type(graph, node, 2);
  const std::int64_t heads = node.attributes.integer("heads"), width = q.shape[2];
  const bool fits = k.dtype == DType::f32 && k.shape.rank() == 3 && k.shape.size() > 0 && k == v &&
                    k.shape[0] == q.shape[0] && k.shape[2] == width && heads > 0 &&
                    heads <= width && width % (heads * (packed ? 3 : 1)) == 0;
  if (!fits) return nullptr;  // the reference operator reports the error
  Sizes sizes{.batch = static_cast<std::size_t>(q.shape[0]),
              .heads = static_cast<std::size_t>(heads),
              .queries = static_cast<std::size_t>(q.shape[1]),
              .keys = static_cast<std::size_t>(k.shape[1]),
              .size = static_cast<std::size_t>(width / heads / (packed ? 3 : 1)),
              .packed = packed,
              .scale = node.attributes.real("scale", 1)};
  if (mask.dtype != DType::none && (mask.dtype != DType::f32 || !read_mask(mask.shape, sizes)))
    return nullptr;
  if (const TensorType cu_seqlens = input_type(graph, node, 4);
      cu_seqlens.dtype != DType::none && !read_cu_seqlens(node, cu_seqlens, mask, sizes))
    return nullptr;
  return std::make_unique<AttentionKernel>(context, sizes);
}

constexpr Maker kAttentionMakers[] = {{"Attention", kFused, make_attention}};

}  // namespace

std::span<const Maker> attention_kernels() { return kAttentionMakers; }

}  // namespace sluice::engine::cpu

// Scatter, ScatterElements, ScatterND, TensorScatter.
#include <cmath>

#include "engine/ops/axes.h"
#include "engine/ops/families.h"
#include "engine/ops/moves.h"
#include "engine/ops/tensor/gather_indices.h"

namespace sluice::engine {
namespace {

enum class Reduction { none, add, mul, max, min };

Reduction reduction_of(const OpCall& call) {
  const std::string name = call.attributes().string("reduction", "none");
  if (name == "none") return Reduction::none;
  if (name == "add") return Reduction::add;
  if (name == "mul") return Reduction::mul;
  if (name == "max") return Reduction::max;
  require(name == "min", "no reduction " + name);
  return Reduction::min;
}

Tensor copy_of(OpCall& call, const Tensor& data) {
  const Tensor out = call.output(0, data.dtype(), data.shape());
  move_elements({data}, {out}, {{data.size(), 1, 1}}, call.workers);
  return out;
}

template <class T>
T reduced(Reduction how, T a, T b) {
  using W = Wide<T>;
  using Sum = std::conditional_t<std::is_integral_v<W>, std::uint64_t, W>;  // integers wrap around
  const auto x = static_cast<W>(a), y = static_cast<W>(b);
  switch (how) {
    case Reduction::none: return b;
    case Reduction::add:
      return static_cast<T>(static_cast<W>(static_cast<Sum>(x) + static_cast<Sum>(y)));
    case Reduction::mul:
      return static_cast<T>(static_cast<W>(static_cast<Sum>(x) * static_cast<Sum>(y)));
    case Reduction::max: return x > y || x != x ? a : b;
    case Reduction::min: return x < y || x != x ? a : b;
  }
  return b;
}

// Writes blocks of `size` updates to `offsets` in order: the last write to an offset wins.
void write_blocks(const Tensor& out, const Tensor& updates, std::span<const std::int64_t> offsets,
                  std::int64_t size, Reduction how) {
  require(updates.dtype() == out.dtype(), "updates of another element type");
  if (out.dtype() == DType::string)
    out.reserve_string_bytes(1, string_bytes(as<std::string>(updates)));
  if (how == Reduction::none)
    return visit_widths(out.dtype(), [&]<class T>() {
      const T* from = as<T>(updates).data();
      for (const std::int64_t offset : offsets) {
        std::copy_n(from, size, as<T>(out).data() + offset);
        from += size;
      }
    });
  visit_numbers(out.dtype(), [&]<class T>() {
    const T* from = as<T>(updates).data();
    for (const std::int64_t offset : offsets)
      for (T* to = as<T>(out).data() + offset; to < as<T>(out).data() + offset + size; ++to)
        *to = reduced<T>(how, *to, *from++);
  });
}

void scatter_elements(OpCall& call) {
  const Tensor& data = call.input(0);
  const int axis = resolve_axis(call.attributes().integer("axis", 0), data.rank());
  require(call.input(1).shape() == call.input(2).shape(), "indices and updates differ in shape");
  const std::vector<std::int64_t> offsets = gather_offsets(call, 1, data.shape(), axis);
  write_blocks(copy_of(call, data), call.input(2), offsets, 1, reduction_of(call));
}

void scatter_nd(OpCall& call) {
  const Tensor& data = call.input(0);
  const GatherNdOffsets found = gather_nd_offsets(call, 1, data.shape(), 0);
  Shape shape = found.tuples;
  for (int i = found.used; i < data.rank(); ++i) shape.push_back(data.shape()[i]);
  require(call.input(2).shape() == shape,
          "updates of shape " + to_string(call.input(2).shape()) + ", not " + to_string(shape));
  write_blocks(copy_of(call, data), call.input(2), found.offsets,
               data.shape().size(found.used, data.rank()), reduction_of(call));
}

// TensorScatter: updates a KV cache at the write index of each sequence.
void tensor_scatter(OpCall& call) {
  const Tensor& cache = call.input(0);
  const Tensor& update = call.input(1);
  const int axis = resolve_axis(call.attributes().integer("axis", -2), cache.rank());
  require(axis > 0, "axis 0 is the batch");
  Shape like = update.shape();
  require(like.rank() == cache.rank(), "cache and update differ in rank");
  const std::int64_t capacity = cache.shape()[axis], steps = like[axis], batch = like[0];
  like[axis] = capacity;
  require(like == cache.shape() && update.dtype() == cache.dtype() && steps <= capacity,
          "an update of " + to_string(update.shape()) + " to " + to_string(cache.shape()));
  if (update.size() == 0) return call.set_output(0, cache);
  const std::string mode = call.attributes().string("mode", "linear");
  require(mode == "linear" || mode == "circular", "no mode " + mode);
  const auto begins = call.has(2) ? call.integers(2)
                                  : std::vector<std::int64_t>(static_cast<std::size_t>(batch), 0);
  require(static_cast<std::int64_t>(begins.size()) == batch, "one write index for each sequence");
  const Tensor out = copy_of(call, cache);
  const std::int64_t inner = like.size(axis + 1, like.rank()), outer = like.size(1, axis);
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t begin = begins[static_cast<std::size_t>(b)];
    require(begin >= 0 &&
                (mode == "circular" ? begin < capacity || steps == 0 : begin <= capacity - steps),
            "write index " + std::to_string(begin) + " of " + std::to_string(capacity));
    const std::int64_t first = std::min(steps, capacity - begin);  // the rest wraps around
    const auto write = [&](std::int64_t from, std::int64_t to, std::int64_t count) {
      move_elements(
          {update, (b * outer * steps + from) * inner}, {out, (b * outer * capacity + to) * inner},
          {{outer, steps * inner, capacity * inner}, {count * inner, 1, 1}}, call.workers);
    };
    write(0, begin, first);
    write(first, 0, steps - first);
  }
}

constexpr Op kScatterOps[] = {
    {"Scatter", 9, kAnyType, scatter_elements},
    {"ScatterElements", 11, kAnyType, scatter_elements},
    {"ScatterND", 11, kAnyType, scatter_nd},
    {"TensorScatter", 24, kAnyType, tensor_scatter},
};

}  // namespace

std::span<const Op> scatter_ops() { return kScatterOps; }

}  // namespace sluice::engine

// Data movement operators as strided copies into the output.
#include <string>
#include <vector>

#include "engine/exec/cpu/backend.h"
#include "engine/exec/cpu/nodes.h"
#include "engine/ops/axes.h"
#include "engine/ops/moves.h"
#include "kernels/common/each_task.h"

namespace sluice::engine::cpu {
namespace {

// The size of an element in bytes, which is copied as an unsigned integer; 0: not supported.
std::int64_t width_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
    case DType::u64: return 8;
    case DType::f32:
    case DType::i32:
    case DType::u32: return 4;
    case DType::f16:
    case DType::bf16:
    case DType::i16:
    case DType::u16: return 2;
    case DType::i8:
    case DType::u8:
    case DType::boolean: return 1;
    default: return 0;
  }
}

Tensor at(const TensorType& type, void* data) {
  return Tensor::view(type.dtype, type.shape, data, nullptr);
}

// Strided copies that are known when the kernel is made.
class MoveKernel final : public Kernel {
 public:
  struct Part {
    std::size_t input, output;
    std::int64_t from, to;  // the first elements
    std::vector<CopyAxis> axes;
  };

  MoveKernel(const Graph& graph, const Node& node, Context& context, std::string what,
             std::vector<Part> parts)
      : workers_(context.workers), name_(std::move(what)), parts_(std::move(parts)) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      inputs_.push_back(input_type(graph, node, i));
    for (const ValueId id : node.outputs)
      outputs_.push_back(id == kNoValue ? TensorType() : type_of(graph[id]));
  }

  void run(const KernelArgs& args) const override {
    for (const Part& part : parts_) {
      if (args.outputs[part.output] == nullptr) continue;
      const Tensor from = at(inputs_[part.input], args.inputs[part.input]);
      const Tensor to = at(outputs_[part.output], args.outputs[part.output]);
      move_elements({from, part.from}, {to, part.to}, part.axes, workers_);
    }
  }
  std::string_view name() const override { return name_; }

 private:
  compute::Workers& workers_;
  std::string name_;
  std::vector<Part> parts_;
  std::vector<TensorType> inputs_, outputs_;
};

// NCHW to NHWC interleave of images with few channels, the first step of image networks. Bound by
// memory bandwidth; move_elements() took four times as long for three planes.
class Interleave final : public Kernel {
 public:
  static constexpr std::int64_t kMaxPlanes = 4;

  Interleave(std::int64_t images, std::int64_t planes, std::int64_t size, Context& context)
      : workers_(context.workers), images_(images), planes_(planes), size_(size) {}

  void run(const KernelArgs& args) const override {
    const float* const x = floats(args, 0);
    float* const y = static_cast<float*>(args.outputs[0]);
    const std::int64_t chunks = (size_ + kChunk - 1) / kChunk;
    each_task(workers_, static_cast<std::size_t>(images_ * chunks),
              [&](std::size_t i, std::size_t) {
                const auto task = static_cast<std::int64_t>(i);
                const std::int64_t image = task / chunks * planes_ * size_,
                                   begin = task % chunks * kChunk;
                const std::int64_t count = std::min(kChunk, size_ - begin);
                const float* const from = x + image + begin;
                float* const to = y + image + begin * planes_;
                switch (planes_) {
                  case 2: return merge<2>(from, count, to);
                  case 3: return merge<3>(from, count, to);
                  default: return merge<4>(from, count, to);
                }
              });
  }
  std::string_view name() const override { return "NCHW to NHWC interleave"; }

 private:
  static constexpr std::int64_t kChunk = 4096;

  template <int kPlanes>
  void merge(const float* from, std::int64_t count, float* to) const {
    for (std::int64_t i = 0; i < count; ++i, to += kPlanes)
      for (int plane = 0; plane < kPlanes; ++plane) to[plane] = from[plane * size_ + i];
  }

  compute::Workers& workers_;
  std::int64_t images_, planes_, size_;
};

bool moves(const TensorType& type) { return width_of(type.dtype) > 0 && type.shape.size() > 0; }

std::unique_ptr<Kernel> make_transpose(const Graph& graph, const Node& node, Context& context) {
  const TensorType x = input_type(graph, node, 0);
  if (!moves(x)) return nullptr;
  const int rank = x.shape.rank();
  std::vector<int> order;
  for (int i = 0; i < rank; ++i) order.push_back(rank - 1 - i);
  if (node.attributes.has("perm")) order = resolve_axes(node.attributes.integers("perm"), rank);
  if (is_f32(x) && order == std::vector{0, 2, 3, 1} && x.shape[1] > 1 &&
      x.shape[1] <= Interleave::kMaxPlanes)
    return std::make_unique<Interleave>(x.shape[0], x.shape[1], x.shape[2] * x.shape[3], context);
  const Shape y = type_of(graph[node.outputs[0]]).shape;
  const Strides from = strides_of(x.shape), to = strides_of(y);
  std::vector<CopyAxis> axes;
  for (int i = 0; i < rank; ++i)
    axes.push_back({y[i], engine::at(from, order[static_cast<std::size_t>(i)]), engine::at(to, i)});
  return std::make_unique<MoveKernel>(graph, node, context, "transpose",
                                      std::vector{MoveKernel::Part{0, 0, 0, 0, axes}});
}

// The row lengths of a tensor and of one of its parts along an axis.
struct Run {
  std::int64_t rows, total, part;

  Run(const Shape& all, const Shape& some, int axis)
      : rows(all.size(0, axis)),
        total(all.size(axis, all.rank())),
        part(some.size(axis, some.rank())) {}
};

std::unique_ptr<Kernel> make_concat(const Graph& graph, const Node& node, Context& context) {
  const TensorType y = type_of(graph[node.outputs[0]]);
  if (!moves(y) || node.version < 4) return nullptr;
  const int axis = resolve_axis(node.attributes.integer("axis"), y.shape.rank());
  std::vector<MoveKernel::Part> parts;
  std::int64_t done = 0;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const TensorType part = input_type(graph, node, i);
    if (part.dtype != y.dtype || part.shape.rank() != y.shape.rank()) return nullptr;
    const Run run(y.shape, part.shape, axis);
    parts.push_back({i, 0, 0, done, {{run.rows, run.part, run.total}, {run.part, 1, 1}}});
    done += run.part;
  }
  if (done != y.shape.size(axis, y.shape.rank())) return nullptr;
  return std::make_unique<MoveKernel>(graph, node, context, "concat", std::move(parts));
}

std::unique_ptr<Kernel> make_split(const Graph& graph, const Node& node, Context& context) {
  const TensorType x = input_type(graph, node, 0);
  if (!moves(x)) return nullptr;
  const int axis = resolve_axis(node.attributes.integer("axis", 0), x.shape.rank());
  std::vector<MoveKernel::Part> parts;
  std::int64_t done = 0;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNoValue) return nullptr;  // its size is not known
    const Run run(x.shape, type_of(graph[node.outputs[i]]).shape, axis);
    parts.push_back({0, i, done, 0, {{run.rows, run.total, run.part}, {run.part, 1, 1}}});
    done += run.part;
  }
  if (done != x.shape.size(axis, x.shape.rank())) return nullptr;
  return std::make_unique<MoveKernel>(graph, node, context, "split", std::move(parts));
}

// Gather with indices that are known only at run time.
class GatherKernel final : public Kernel {
 public:
  GatherKernel(const TensorType& x, const TensorType& indices, const TensorType& y, int axis,
               Context& context)
      : workers_(context.workers), x_(x), indices_(indices), y_(y), axis_(axis) {}

  void run(const KernelArgs& args) const override {
    const std::int64_t size = x_.shape[axis_];
    const std::int64_t inner = x_.shape.size(axis_ + 1, x_.shape.rank());
    const auto count = static_cast<std::size_t>(indices_.shape.size());
    std::vector<std::int64_t> offsets(static_cast<std::size_t>(x_.shape.size(0, axis_)) * count);
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      const std::int64_t index = resolve_index(read(args.inputs[1], i % count), size);
      offsets[i] = (static_cast<std::int64_t>(i / count) * size + index) * inner;
    }
    gather_blocks(at(x_, args.inputs[0]), at(y_, args.outputs[0]), offsets, inner, workers_);
  }
  std::string_view name() const override { return "gather"; }

 private:
  std::int64_t read(const void* from, std::size_t i) const {
    return indices_.dtype == DType::i64 ? static_cast<const std::int64_t*>(from)[i]
                                        : static_cast<const std::int32_t*>(from)[i];
  }

  compute::Workers& workers_;
  TensorType x_, indices_, y_;
  int axis_;
};

std::unique_ptr<Kernel> make_gather(const Graph& graph, const Node& node, Context& context) {
  const TensorType x = input_type(graph, node, 0), indices = input_type(graph, node, 1);
  const TensorType y = type_of(graph[node.outputs[0]]);
  if (!moves(x) || !moves(y) || (indices.dtype != DType::i64 && indices.dtype != DType::i32))
    return nullptr;
  const int axis = resolve_axis(node.attributes.integer("axis", 0), x.shape.rank());
  return std::make_unique<GatherKernel>(x, indices, y, axis, context);
}

constexpr Maker kMoveMakers[] = {
    {"Concat", "", make_concat},
    {"Gather", "", make_gather},
    {"Split", "", make_split},
    {"Transpose", "", make_transpose},
};

}  // namespace

std::span<const Maker> data_movement_kernels() { return kMoveMakers; }

}  // namespace sluice::engine::cpu

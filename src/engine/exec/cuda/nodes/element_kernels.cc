// Broadcasting and vectorized loads of element programs, compiled by NVRTC or interpreted.
#include "engine/exec/cuda/nodes/element_kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "engine/exec/cuda/context/nvrtc.h"
#include "engine/exec/cuda/nodes/node_view.h"
#include "kernels/elementwise/element_interpreter.h"
#include "kernels/elementwise/element_source.h"

namespace sluice::engine::cuda {
namespace {

// The axes of the output, innermost first, merged where all inputs allow it.
struct Axes {
  std::vector<std::int64_t> size;
  std::vector<std::vector<std::int64_t>> stride;  // strides by axis and input

  Axes(const Shape& out, const std::vector<ElementInput>& inputs) {
    std::vector<std::int64_t> behind(inputs.size(), 1);
    for (int axis = out.rank() - 1; axis >= 0; --axis) {
      if (out[axis] == 1) continue;
      std::vector<std::int64_t> along(inputs.size());
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const Shape& own = inputs[i].shape;
        const int at = axis - (out.rank() - own.rank());
        const std::int64_t dim = at >= 0 ? own[at] : 1;
        along[i] = dim == 1 ? 0 : behind[i];
        behind[i] *= dim;
      }
      if (!size.empty() && merges(along))
        size.back() *= out[axis];
      else
        size.push_back(out[axis]), stride.push_back(std::move(along));
    }
  }

 private:
  bool merges(const std::vector<std::int64_t>& along) const {
    for (std::size_t i = 0; i < along.size(); ++i)
      if (along[i] != stride.back()[i] * size.back()) return false;
    return true;
  }
};

ElementAccess access_of(const Axes& axes, std::size_t input) {
  std::int64_t expected = 1;
  bool all = true, none = true;
  for (std::size_t a = 0; a < axes.size.size(); ++a) {
    all = all && axes.stride[a][input] == expected;
    none = none && axes.stride[a][input] == 0;
    expected *= axes.size[a];
  }
  if (none) return ElementAccess::scalar;
  if (all) return ElementAccess::contiguous;
  return axes.stride[0][input] == 0 ? ElementAccess::broadcast : ElementAccess::strided;
}

// Whether each thread can compute `width` consecutive elements.
bool fits(const Axes& axes, std::int64_t width, std::size_t inputs) {
  if (width == 1) return true;
  if (axes.size.empty() || axes.size[0] % width != 0) return false;
  for (std::size_t i = 0; i < inputs; ++i) {
    if (axes.stride[0][i] > 1) return false;
    for (std::size_t a = 1; axes.stride[0][i] == 1 && a < axes.size.size(); ++a)
      if (axes.stride[a][i] % width != 0) return false;
  }
  return true;
}

int vector_width(const ElementProgram& program, const Axes& axes) {
  std::size_t widest = bytes(program.output());
  for (const DType type : program.inputs()) widest = std::max(widest, bytes(type));
  auto width = static_cast<std::int64_t>(16 / widest);
  while (!fits(axes, width, program.inputs().size())) width /= 2;
  return static_cast<int>(width);
}

Extent extent_of(const Axes& axes, std::size_t inputs, int width) {
  Extent extent{};
  extent.rank = static_cast<int>(axes.size.size());
  std::int64_t total = 1;
  for (int i = 0; i < extent.rank; ++i) {
    const auto a = static_cast<std::size_t>(extent.rank - 1 - i);  // the innermost is last there
    const std::int64_t size = axes.size[a] / (a == 0 ? width : 1);
    total *= size;
    const auto n = static_cast<unsigned>(size);
    extent.size[i] = n;
    extent.shift[i] = static_cast<unsigned>(std::bit_width(n - 1));
    const std::uint64_t power = std::uint64_t{1} << extent.shift[i];
    extent.multiply[i] = static_cast<unsigned>(((power - n) << 32) / n + 1);
    for (std::size_t k = 0; k < inputs; ++k)
      extent.stride[k][i] = static_cast<int>(axes.stride[a][k] * (a == 0 ? width : 1));
  }
  extent.total = static_cast<unsigned>(total);
  return extent;
}

// The extent of the live rows.
Extent live_extent(Extent extent, const LiveRows& live) {
  if (live.count() == nullptr || extent.total % live.capacity != 0) return extent;
  extent.live_rows = live.count();
  extent.each = static_cast<unsigned>(extent.total / live.capacity);
  return extent;
}

// The input that the output may overwrite: each thread reads its elements before it writes.
int overwritten(const ElementProgram& program, const std::vector<ElementInput>& inputs,
                const std::vector<ElementAccess>& reach) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (reach[i] == ElementAccess::contiguous &&
        bytes(program.inputs()[i]) == bytes(program.output()))
      return static_cast<int>(inputs[i].of);
  return -1;
}

// Null if it cannot be compiled.
std::unique_ptr<Kernel> compiled(const std::string& name, const ElementProgram& program,
                                 const std::vector<ElementInput>& inputs, const Axes& axes,
                                 NvrtcKernels& sources) {
  ElementLayout layout{static_cast<int>(axes.size.size()), vector_width(program, axes), {}};
  for (std::size_t i = 0; i < inputs.size(); ++i) layout.access.push_back(access_of(axes, i));
  const Extent extent = extent_of(axes, inputs.size(), layout.width);
  std::vector<std::size_t> of;
  for (const ElementInput& input : inputs) of.push_back(input.of);
  const auto kernel = sources.get(element_source(program, layout), "elementwise_fused");
  if (!kernel) return nullptr;
  const auto run = [extent, of, kernel](const KernelArgs& args) {
    std::array<void*, kMaxElementInputs + 1> addresses{};
    Extent live = live_extent(extent, args.live);
    std::array<void*, kMaxElementInputs + 2> parameters{&live};
    for (std::size_t i = 0; i <= of.size(); ++i) {
      addresses[i] = i < of.size() ? args.inputs[of[i]] : args.outputs[0];
      parameters[i + 1] = &addresses[i];
    }
    const unsigned blocks = (extent.total + kElementThreads - 1) / kElementThreads;
    kernel->launch(blocks, kElementThreads, parameters.data(), args);
  };
  return launched(name, run, kReadsAll, 0, overwritten(program, inputs, layout.access));
}

std::unique_ptr<Kernel> interpreted(std::string name, const ElementProgram& program,
                                    const std::vector<ElementInput>& inputs, const Axes& axes,
                                    Context& context) {
  if (!element_interpreter_supports(program)) return nullptr;
  const std::size_t size = program.instructions().size() * sizeof(ElementInstruction);
  Tensor instructions(DType::u8, {static_cast<std::int64_t>(size)});
  if (size > 0) std::memcpy(instructions.data(), program.instructions().data(), size);
  const ConstMemory held = context.constant(instructions);
  ElementTable table{};
  table.instructions = static_cast<const ElementInstruction*>(held.get());
  table.inputs = static_cast<int>(inputs.size());
  table.count = static_cast<int>(program.instructions().size());
  table.result = program.result();
  std::copy(program.inputs().begin(), program.inputs().end(), table.types);
  table.output = program.output();
  std::vector<std::size_t> of;
  for (const ElementInput& input : inputs) of.push_back(input.of);
  const Extent extent = extent_of(axes, inputs.size(), 1);
  return launched(name + ", interpreted", [table, extent, of, held](const KernelArgs& args) {
    std::array<const void*, kMaxElementInputs> from{};
    for (std::size_t i = 0; i < of.size(); ++i) from[i] = args.inputs[of[i]];
    run_element_interpreter(table, live_extent(extent, args.live), args, from.data(),
                            args.outputs[0]);
  });
}

}  // namespace

std::unique_ptr<Kernel> make_elements(std::string name, const ElementProgram& program,
                                      const std::vector<ElementInput>& inputs, const Shape& out,
                                      Context& context) {
  if (out.size() == 0) return nothing_to_do();
  if (out.size() >= std::int64_t{1} << 31 || inputs.empty() ||
      inputs.size() > static_cast<std::size_t>(kMaxElementInputs) ||
      !is_element_type(program.output()))
    return nullptr;
  for (const DType type : program.inputs())
    if (!is_element_type(type)) return nullptr;
  for (const ElementInput& input : inputs)
    if (!(broadcast(input.shape, out) == out)) return nullptr;
  const Axes axes(out, inputs);
  if (axes.size.size() > static_cast<std::size_t>(kMaxElementAxes)) return nullptr;
  if (auto kernel = compiled(name, program, inputs, axes, context.part<NvrtcKernels>()))
    return kernel;
  return interpreted(std::move(name), program, inputs, axes, context);
}

}  // namespace sluice::engine::cuda

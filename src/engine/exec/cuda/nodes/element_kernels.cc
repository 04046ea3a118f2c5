// Kernels for element programs: how inputs are stretched, how wide memory is read, and which
// of the two ways it is done.
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

// Axes of the output, the innermost first, that some input does not merge with the next.
struct Axes {
  std::vector<std::int64_t> size;
  std::vector<std::vector<std::int64_t>> step;  // of each, by input

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
        size.push_back(out[axis]), step.push_back(std::move(along));
    }
  }

 private:
  bool merges(const std::vector<std::int64_t>& along) const {
    for (std::size_t i = 0; i < along.size(); ++i)
      if (along[i] != step.back()[i] * size.back()) return false;
    return true;
  }
};

ElementReach reach_of(const Axes& axes, std::size_t input) {
  std::int64_t expected = 1;
  bool all = true, none = true;
  for (std::size_t a = 0; a < axes.size.size(); ++a) {
    all = all && axes.step[a][input] == expected;
    none = none && axes.step[a][input] == 0;
    expected *= axes.size[a];
  }
  if (none) return ElementReach::single;
  if (all) return ElementReach::along;
  return axes.step[0][input] == 0 ? ElementReach::spread : ElementReach::packed;
}

// Whether threads can make that many neighbours each.
bool fits(const Axes& axes, std::int64_t width, std::size_t inputs) {
  if (width == 1) return true;
  if (axes.size.empty() || axes.size[0] % width != 0) return false;
  for (std::size_t i = 0; i < inputs; ++i) {
    if (axes.step[0][i] > 1) return false;
    for (std::size_t a = 1; axes.step[0][i] == 1 && a < axes.size.size(); ++a)
      if (axes.step[a][i] % width != 0) return false;
  }
  return true;
}

int width_of(const ElementProgram& program, const Axes& axes) {
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
      extent.step[k][i] = static_cast<int>(axes.step[a][k] * (a == 0 ? width : 1));
  }
  extent.total = static_cast<unsigned>(total);
  return extent;
}

// The input that the output may lie in: each thread reads its own elements of it first.
int overwritten(const ElementProgram& program, const std::vector<ElementInput>& inputs,
                const std::vector<ElementReach>& reach) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (reach[i] == ElementReach::along && bytes(program.inputs()[i]) == bytes(program.output()))
      return static_cast<int>(inputs[i].of);
  return -1;
}

// Null where nothing compiles it.
std::unique_ptr<Kernel> compiled(const std::string& what, const ElementProgram& program,
                                 const std::vector<ElementInput>& inputs, const Axes& axes,
                                 Sources& sources) {
  ElementLayout layout{static_cast<int>(axes.size.size()), width_of(program, axes), {}};
  for (std::size_t i = 0; i < inputs.size(); ++i) layout.reach.push_back(reach_of(axes, i));
  const Extent extent = extent_of(axes, inputs.size(), layout.width);
  std::vector<std::size_t> of;
  for (const ElementInput& input : inputs) of.push_back(input.of);
  const auto kernel = sources.get(element_source(program, layout), "elements");
  if (!kernel) return nullptr;
  const auto run = [extent, of, kernel](const KernelArgs& args) {
    std::array<void*, kMostElementInputs + 1> addresses{};
    std::array<void*, kMostElementInputs + 2> parameters{const_cast<Extent*>(&extent)};
    for (std::size_t i = 0; i <= of.size(); ++i) {
      addresses[i] = i < of.size() ? args.inputs[of[i]] : args.outputs[0];
      parameters[i + 1] = &addresses[i];
    }
    const unsigned blocks = (extent.total + kElementThreads - 1) / kElementThreads;
    kernel->launch(blocks, kElementThreads, parameters.data(), args);
  };
  return launched(what, run, kReadsAll, 0, overwritten(program, inputs, layout.reach));
}

std::unique_ptr<Kernel> by_steps(std::string what, const ElementProgram& program,
                                 const std::vector<ElementInput>& inputs, const Axes& axes,
                                 Context& context) {
  if (!goes_by_steps(program)) return nullptr;
  const std::size_t size = program.steps().size() * sizeof(ElementStep);
  Tensor steps(DType::u8, {static_cast<std::int64_t>(size)});
  if (size > 0) std::memcpy(steps.data(), program.steps().data(), size);
  const ConstMemory held = context.constant(steps);
  ElementTable table{};
  table.steps = static_cast<const ElementStep*>(held.get());
  table.inputs = static_cast<int>(inputs.size());
  table.count = static_cast<int>(program.steps().size());
  table.result = program.result();
  std::copy(program.inputs().begin(), program.inputs().end(), table.types);
  table.output = program.output();
  std::vector<std::size_t> of;
  for (const ElementInput& input : inputs) of.push_back(input.of);
  const Extent extent = extent_of(axes, inputs.size(), 1);
  return launched(what + ", step by step", [table, extent, of, held](const KernelArgs& args) {
    std::array<const void*, kMostElementInputs> from{};
    for (std::size_t i = 0; i < of.size(); ++i) from[i] = args.inputs[of[i]];
    run_steps(table, extent, args, from.data(), args.outputs[0]);
  });
}

}  // namespace

std::unique_ptr<Kernel> make_elements(std::string what, const ElementProgram& program,
                                      const std::vector<ElementInput>& inputs, const Shape& out,
                                      Context& context) {
  if (out.size() == 0) return nothing_to_do();
  if (out.size() >= std::int64_t{1} << 31 || inputs.empty() ||
      inputs.size() > static_cast<std::size_t>(kMostElementInputs) ||
      !is_element_type(program.output()))
    return nullptr;
  for (const DType type : program.inputs())
    if (!is_element_type(type)) return nullptr;
  for (const ElementInput& input : inputs)
    if (!(broadcast(input.shape, out) == out)) return nullptr;
  const Axes axes(out, inputs);
  if (axes.size.size() > static_cast<std::size_t>(kMostElementAxes)) return nullptr;
  if (auto kernel = compiled(what, program, inputs, axes, context.part<Sources>())) return kernel;
  return by_steps(std::move(what), program, inputs, axes, context);
}

}  // namespace sluice::engine::cuda

#include "engine/exec/cpu/cpu_program.h"

#include <chrono>
#include <cstring>

#include "base/error.h"
#include "engine/exec/nvtx_range.h"

namespace sluice::engine {
namespace {

constexpr std::size_t kCacheLine = 64;

using Clock = std::chrono::steady_clock;

double us(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

void run_step(const ScheduleStep& step, const KernelArgs& args) {
  const NvtxRange range(name_of(*step.node));
  try {
    step.kernel->run(args);
  } catch (const Error& error) {
    throw Error(error.code(), describe(*step.node) + ": " + std::string(error.reason()));
  }
}

}  // namespace

CpuProgram::CpuProgram(Graph graph, std::shared_ptr<cpu::Context> context)
    : graph_(std::move(graph)), context_(std::move(context)) {
  for (const ValueId id : graph_.outputs)  // outputs are copied as bytes
    if (graph_[id].dtype == DType::string)
      throw Error(Code::unavailable, "output '" + graph_[id].name + "' holds strings");
  for (const Node& node : graph_.nodes)
    kernels_.push_back(is_view(node) ? nullptr : cpu::make_kernel(graph_, node, *context_));
  schedule_ = make_schedule(graph_, kernels_, kCacheLine);
}

std::size_t CpuProgram::trim() const noexcept { return context_->arenas->trim(); }

std::vector<Tensor> CpuProgram::run(std::span<const Tensor> inputs,
                                    std::vector<StepTime>* times) const {
  std::vector<Tensor> outputs;
  for (const ValueId id : graph_.outputs) {
    const TensorType type = type_of(graph_[id]);
    outputs.emplace_back(type.dtype, type.shape);
  }
  const cpu::ArenaPool::Loan arena(*context_->arenas, schedule_.arena);
  const auto address = [&](const ValueLocation& location) -> void* {
    switch (location.kind) {
      case ValueLocation::Kind::none: return nullptr;
      case ValueLocation::Kind::constant: return graph_.values[location.at].constant.data();
      case ValueLocation::Kind::input: return inputs[location.at].data();
      case ValueLocation::Kind::output: return outputs[location.at].data();
      case ValueLocation::Kind::arena: return arena.data() + location.at;
    }
    return nullptr;
  };
  const Clock::time_point start = Clock::now();
  std::vector<void*> from, to;
  for (const ScheduleStep& step : schedule_.steps) {
    from.clear();
    to.clear();
    for (const ValueLocation& location : step.inputs) from.push_back(address(location));
    for (const ValueLocation& location : step.outputs) to.push_back(address(location));
    const Clock::time_point begin = times == nullptr ? start : Clock::now();
    run_step(step, {from, to, arena.data() + step.scratch});
    if (times != nullptr)
      times->push_back(
          {step.node, step.kernel->name(), us(begin - start), us(Clock::now() - begin)});
  }
  for (const OutputCopy& copy : schedule_.copies)
    if (outputs[copy.output].bytes() > 0)
      std::memcpy(outputs[copy.output].data(), address(copy.from), outputs[copy.output].bytes());
  return outputs;
}

}  // namespace sluice::engine

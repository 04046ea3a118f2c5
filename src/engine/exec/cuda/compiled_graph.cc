#include "engine/exec/cuda/compiled_graph.h"

#include "device/cuda/check.h"
#include "engine/exec/nvtx_range.h"

namespace sluice::engine::cuda {
namespace {

constexpr std::size_t kAlignment = 256;

}  // namespace

CompiledGraph::CompiledGraph(Graph graph, std::shared_ptr<Context> context,
                             std::shared_ptr<cpu::Context> host, const std::vector<NodeRows>& rows)
    : graph_(std::move(graph)), context_(std::move(context)), host_(std::move(host)) {
  const device::DeviceScope on({context_->options.device});
  const Lock lock(context_->making);
  const struct End {
    Context& of;
    ~End() { of.end_making(); }
  } end{*context_};
  make_kernels();
  schedule_ = make_schedule(graph_, kernels_, kAlignment);
  for (const ScheduleStep& step : schedule_.steps) {
    host_kernels_.push_back(dynamic_cast<const HostKernel*>(step.kernel));
    const auto node = static_cast<std::size_t>(step.node - graph_.nodes.data());
    rows_.push_back(rows.empty() ? NodeRows{} : rows.at(node));
  }
  upload_constants();
}

void CompiledGraph::make_kernels() {
  for (const Node& node : graph_.nodes) {
    std::unique_ptr<Kernel> kernel;
    if (!is_view(node)) kernel = make_kernel(graph_, node, *context_);
    if (!is_view(node) && !kernel) kernel = std::make_unique<HostKernel>(graph_, node, *host_);
    kernels_.push_back(std::move(kernel));
  }
}

void CompiledGraph::upload_constants() {
  constants_.resize(graph_.values.size());
  const auto upload = [&](const ValueLocation& location) {
    if (location.kind == ValueLocation::Kind::constant && !constants_[location.at])
      constants_[location.at] = context_->constant(graph_.values[location.at].constant);
  };
  for (std::size_t s = 0; s < schedule_.steps.size(); ++s) {
    const ScheduleStep& step = schedule_.steps[s];
    for (std::size_t i = 0; i < step.inputs.size(); ++i)
      if (host_kernels_[s] == nullptr && step.kernel->reads_constant(i)) upload(step.inputs[i]);
  }
  for (const OutputCopy& copy : schedule_.copies) upload(copy.from);
}

std::size_t CompiledGraph::host_bytes() const {
  std::size_t most = 0;
  for (const HostKernel* step : host_kernels_)
    if (step != nullptr) most = std::max(most, step->host_bytes());
  return most;
}

void* CompiledGraph::address(const ValueLocation& location, const RunMemory& memory,
                             bool on_host) const {
  switch (location.kind) {
    case ValueLocation::Kind::none: return nullptr;
    case ValueLocation::Kind::constant:
      return on_host ? graph_.values[location.at].constant.data()
                     : const_cast<void*>(constants_[location.at].get());
    case ValueLocation::Kind::input: return memory.io.inputs[location.at];
    case ValueLocation::Kind::output: return memory.io.outputs[location.at];
    case ValueLocation::Kind::arena: return memory.arena + location.at;
  }
  return nullptr;
}

void CompiledGraph::enqueue_step(std::size_t i, const RunMemory& memory) const {
  const ScheduleStep& step = schedule_.steps[i];
  const bool on_host = host_kernels_[i] != nullptr;
  std::vector<void*> from, to;
  for (const ValueLocation& location : step.inputs)
    from.push_back(address(location, memory, on_host));
  for (const ValueLocation& location : step.outputs)
    to.push_back(address(location, memory, on_host));
  void* const scratch = on_host ? memory.host : memory.arena + step.scratch;
  const NvtxRange range(name_of(*step.node));
  try {
    step.kernel->run({from,
                      to,
                      scratch,
                      memory.stream,
                      {memory.error_flag, static_cast<unsigned>(i)},
                      {memory.live, rows_[i].of, rows_[i].capacity},
                      memory.queue});
  } catch (const device::GpuError& error) {
    throw device::GpuError(error.status(),
                           describe(*step.node) + ": " + std::string(error.reason()));
  } catch (const Error& error) {
    throw Error(error.code(), describe(*step.node) + ": " + std::string(error.reason()));
  }
}

void CompiledGraph::enqueue_output_copies(const RunMemory& memory) const {
  for (const OutputCopy& copy : schedule_.copies) {
    const std::size_t bytes = type_of(graph_[graph_.outputs[copy.output]]).bytes();
    if (bytes > 0)
      device::check(cudaMemcpyAsync(memory.io.outputs[copy.output],
                                    address(copy.from, memory, false), bytes,
                                    cudaMemcpyDeviceToDevice, memory.stream));
  }
}

Error CompiledGraph::step_error(unsigned i) const {
  const Node& node = *schedule_.steps.at(i).node;
  const bool of_lengths =
      node.op == "ReverseSequence" || node.op == "LSTM" || node.op == "GRU" || node.op == "RNN";
  return Error(Code::invalid_argument,
               describe(node) + (of_lengths ? ": a length" : ": an index") + " is out of range");
}

}  // namespace sluice::engine::cuda

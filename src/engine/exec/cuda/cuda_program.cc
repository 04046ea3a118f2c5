#include "engine/exec/cuda/cuda_program.h"

#include <cstring>

#include "engine/exec/cuda/context/execution_slot.h"
#include "engine/exec/cuda/host_kernel.h"
#include "engine/exec/nvtx_range.h"

namespace sluice::engine {
namespace {

using cuda::CapturedGraphs;
using cuda::ExecutionSlot;
using cuda::HostKernel;
using cuda::IoAddresses;
using cuda::SlotPool;

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kMaxCaptured = 4;  // sets of I/O addresses that a slot has graphs for

// Consecutive steps on the device; a step on the host follows each segment but the last.
struct Segment {
  std::size_t begin, end;
};

class DeviceProgram final : public CudaProgram {
 public:
  DeviceProgram(Graph graph, std::shared_ptr<cuda::Context> context,
                std::shared_ptr<cpu::Context> host);

  const Graph& graph() const noexcept override { return graph_; }
  const Schedule& schedule() const noexcept override { return schedule_; }
  CudaReport report() const override;
  std::vector<Tensor> run(std::span<const Tensor> inputs,
                          std::vector<StepTime>* times) const override;
  double run_on_device(std::span<void* const> inputs, std::span<void* const> outputs,
                       int runs) const override;
  std::size_t trim() const noexcept override { return slots_->trim(); }

 private:
  class Timer;

  void make_kernels();
  void upload_constants();
  void split();
  cuda::SlotSize slot_size() const;

  void check_inputs(std::span<const Tensor> inputs) const;
  void copy(void* to, const void* from, std::size_t bytes) const;
  void* address(const ValueLocation& location, const ExecutionSlot& slot, const IoAddresses& io,
                bool on_host) const;
  void enqueue_step(std::size_t i, ExecutionSlot& slot, const IoAddresses& io) const;
  void enqueue_segment(std::size_t i, ExecutionSlot& slot, const IoAddresses& io) const;
  void enqueue_end(ExecutionSlot& slot, const IoAddresses& io) const;
  void enqueue(ExecutionSlot& slot, const IoAddresses& io) const;
  void capture(CapturedGraphs& captured, ExecutionSlot& slot, const IoAddresses& io) const;
  void execute(ExecutionSlot& slot, const IoAddresses& io) const;
  void execute_timed(ExecutionSlot& slot, std::vector<StepTime>& times) const;
  // Throws if a step reported an error; the slot remains usable.
  void check_error(SlotPool::Guard& taken) const;

  Graph graph_;
  std::shared_ptr<cuda::Context> context_;
  std::shared_ptr<cpu::Context> host_;
  std::vector<std::unique_ptr<Kernel>> kernels_;  // by node, null for views
  std::vector<cuda::ConstMemory> constants_;      // by value, those that are on the device
  Schedule schedule_;
  std::vector<const HostKernel*> host_kernels_;  // by step, null on the device
  std::vector<Segment> segments_;
  std::unique_ptr<SlotPool> slots_;
  mutable Mutex mutex_;
  mutable std::string not_captured_ GUARDED_BY(mutex_);
};

// Records CUDA events before each step and after the last.
class DeviceProgram::Timer {
 public:
  ~Timer() {
    for (const cudaEvent_t event : events_) device::check_in_destructor(cudaEventDestroy(event));
  }
  void mark(cudaStream_t stream) {
    cudaEvent_t event = nullptr;
    device::check(cudaEventCreate(&event));
    events_.push_back(event);
    device::check(cudaEventRecord(event, stream));
  }
  double us(std::size_t from, std::size_t to) const {
    float ms = 0;
    device::check(cudaEventElapsedTime(&ms, events_[from], events_[to]));
    return static_cast<double>(ms) * 1000;
  }

 private:
  std::vector<cudaEvent_t> events_;
};

DeviceProgram::DeviceProgram(Graph graph, std::shared_ptr<cuda::Context> context,
                             std::shared_ptr<cpu::Context> host)
    : graph_(std::move(graph)), context_(std::move(context)), host_(std::move(host)) {
  const device::DeviceScope on({context_->options.device});
  const Lock lock(context_->making);
  const struct End {
    cuda::Context& of;
    ~End() { of.end_making(); }
  } end{*context_};
  make_kernels();
  schedule_ = make_schedule(graph_, kernels_, kAlignment);
  split();
  upload_constants();
  slots_ = std::make_unique<SlotPool>(
      [this] { return std::make_unique<ExecutionSlot>(*context_, slot_size()); },
      context_->options.slots);
}

void DeviceProgram::make_kernels() {
  for (const Node& node : graph_.nodes) {
    std::unique_ptr<Kernel> kernel;
    if (!is_view(node)) kernel = cuda::make_kernel(graph_, node, *context_);
    if (!is_view(node) && !kernel) kernel = std::make_unique<HostKernel>(graph_, node, *host_);
    kernels_.push_back(std::move(kernel));
  }
}

void DeviceProgram::upload_constants() {
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

void DeviceProgram::split() {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
    host_kernels_.push_back(dynamic_cast<const HostKernel*>(schedule_.steps[i].kernel));
    if (host_kernels_.back() == nullptr) continue;
    segments_.push_back({begin, i});
    begin = i + 1;
  }
  segments_.push_back({begin, schedule_.steps.size()});
}

cuda::SlotSize DeviceProgram::slot_size() const {
  cuda::SlotSize size{.inputs = {}, .outputs = {}, .arena = schedule_.arena};
  for (const ValueId id : graph_.inputs) size.inputs.push_back(type_of(graph_[id]).bytes());
  for (const ValueId id : graph_.outputs) size.outputs.push_back(type_of(graph_[id]).bytes());
  for (const HostKernel* step : host_kernels_)
    if (step != nullptr) size.host = std::max(size.host, step->host_bytes());
  return size;
}

CudaReport DeviceProgram::report() const {
  CudaReport report{.on_host = {},
                    .constants = context_->constant_bytes(),
                    .arena = schedule_.arena,
                    .peak_live = schedule_.peak_live,
                    .unshared = schedule_.unshared,
                    .not_captured = {}};
  for (std::size_t i = 0; i < host_kernels_.size(); ++i)
    if (host_kernels_[i] == nullptr)
      ++report.device_steps;
    else
      report.on_host.push_back({describe(*schedule_.steps[i].node), host_kernels_[i]->copied()});
  const cuda::SlotSize size = slot_size();
  for (const std::size_t bytes : size.inputs) report.io_bytes += bytes;
  for (const std::size_t bytes : size.outputs) report.io_bytes += bytes;
  report.pinned = size.pinned();
  const Lock lock(mutex_);
  report.not_captured = not_captured_;
  return report;
}

void DeviceProgram::check_inputs(std::span<const Tensor> inputs) const {
  require(inputs.size() == graph_.inputs.size(),
          "the model takes " + std::to_string(graph_.inputs.size()) + " inputs, not " +
              std::to_string(inputs.size()));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Value& value = graph_[graph_.inputs[i]];
    const TensorType type = type_of(value);
    require(type == TensorType{inputs[i].dtype(), inputs[i].shape()},
            "input '" + value.name + "' was compiled for " + to_string(type.shape) + ", not " +
                to_string(inputs[i].shape()));
  }
}

// Copies to and from pinned memory on all cores: a single core would be slower than the bus.
void DeviceProgram::copy(void* to, const void* from, std::size_t bytes) const {
  constexpr std::size_t kChunk = 1 << 20;
  host_->workers.each(bytes, kChunk, [&](std::size_t begin, std::size_t end) {
    std::memcpy(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
                end - begin);
  });
}

void* DeviceProgram::address(const ValueLocation& location, const ExecutionSlot& slot,
                             const IoAddresses& io, bool on_host) const {
  switch (location.kind) {
    case ValueLocation::Kind::none: return nullptr;
    case ValueLocation::Kind::constant:
      return on_host ? graph_.values[location.at].constant.data()
                     : const_cast<void*>(constants_[location.at].get());
    case ValueLocation::Kind::input: return io.inputs[location.at];
    case ValueLocation::Kind::output: return io.outputs[location.at];
    case ValueLocation::Kind::arena: return static_cast<std::byte*>(slot.arena.get()) + location.at;
  }
  return nullptr;
}

void DeviceProgram::enqueue_step(std::size_t i, ExecutionSlot& slot, const IoAddresses& io) const {
  const ScheduleStep& step = schedule_.steps[i];
  const bool on_host = host_kernels_[i] != nullptr;
  std::vector<void*> from, to;
  for (const ValueLocation& location : step.inputs)
    from.push_back(address(location, slot, io, on_host));
  for (const ValueLocation& location : step.outputs)
    to.push_back(address(location, slot, io, on_host));
  void* const scratch =
      on_host ? slot.host.get() : static_cast<std::byte*>(slot.arena.get()) + step.scratch;
  const NvtxRange range(name_of(*step.node));
  try {
    step.kernel->run(
        {from, to, scratch, slot.stream.get(), {slot.error_flag(), static_cast<unsigned>(i)}});
  } catch (const device::GpuError& error) {
    throw device::GpuError(error.status(),
                           describe(*step.node) + ": " + std::string(error.reason()));
  } catch (const Error& error) {
    throw Error(error.code(), describe(*step.node) + ": " + std::string(error.reason()));
  }
}

void DeviceProgram::enqueue_segment(std::size_t i, ExecutionSlot& slot,
                                    const IoAddresses& io) const {
  if (i == 0 && io == slot.device_io) slot.copy_in();
  for (std::size_t s = segments_[i].begin; s < segments_[i].end; ++s) enqueue_step(s, slot, io);
  if (i + 1 == segments_.size()) enqueue_end(slot, io);
}

void DeviceProgram::enqueue_end(ExecutionSlot& slot, const IoAddresses& io) const {
  for (const OutputCopy& copy : schedule_.copies) {
    const std::size_t bytes = type_of(graph_[graph_.outputs[copy.output]]).bytes();
    if (bytes > 0)
      device::check(cudaMemcpyAsync(io.outputs[copy.output], address(copy.from, slot, io, false),
                                    bytes, cudaMemcpyDeviceToDevice, slot.stream.get()));
  }
  if (io == slot.device_io) slot.copy_out();
}

void DeviceProgram::enqueue(ExecutionSlot& slot, const IoAddresses& io) const {
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    enqueue_segment(i, slot, io);
    if (i + 1 < segments_.size()) enqueue_step(segments_[i].end, slot, io);
  }
}

void DeviceProgram::capture(CapturedGraphs& captured, ExecutionSlot& slot,
                            const IoAddresses& io) const {
  try {
    for (std::size_t i = 0; i < segments_.size(); ++i)
      captured.segments.push_back(
          cuda::GraphExec::capture(slot.stream.get(), [&] { enqueue_segment(i, slot, io); }));
    captured.state = CapturedGraphs::State::captured;
  } catch (const Error& error) {
    if (device::gpu_status_of(error) == device::GpuStatus::lost) throw;
    captured = {.state = CapturedGraphs::State::refused, .segments = {}};
    const Lock lock(mutex_);
    not_captured_ = error.reason();
  }
}

// The first run launches steps one by one, since libraries load code and choose algorithms then.
void DeviceProgram::execute(ExecutionSlot& slot, const IoAddresses& io) const {
  if (slot.captured.size() > kMaxCaptured) slot.captured.clear();
  CapturedGraphs& captured = slot.captured[io];
  if (captured.state == CapturedGraphs::State::warm) capture(captured, slot, io);
  if (captured.state != CapturedGraphs::State::captured) {
    enqueue(slot, io);
    if (captured.state == CapturedGraphs::State::fresh)
      captured.state = CapturedGraphs::State::warm;
    return;
  }
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    captured.segments[i].launch(slot.stream.get());
    if (i + 1 < segments_.size()) enqueue_step(segments_[i].end, slot, io);
  }
}

void DeviceProgram::execute_timed(ExecutionSlot& slot, std::vector<StepTime>& times) const {
  Timer timer;  // marks: before the input copy, each step and the output copy, and at the end
  timer.mark(slot.stream.get());
  slot.copy_in();
  for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
    timer.mark(slot.stream.get());
    enqueue_step(i, slot, slot.device_io);
  }
  timer.mark(slot.stream.get());
  enqueue_end(slot, slot.device_io);
  timer.mark(slot.stream.get());
  slot.stream.wait();
  const auto add = [&](const Node* node, std::string_view name, std::size_t mark,
                       StepTime::Track on) {
    times.push_back({node, name, timer.us(0, mark), timer.us(mark, mark + 1), on});
  };
  add(nullptr, "H2D copy of the inputs", 0, StepTime::Track::copies);
  for (std::size_t i = 0; i < schedule_.steps.size(); ++i)
    add(schedule_.steps[i].node, schedule_.steps[i].kernel->name(), i + 1,
        host_kernels_[i] != nullptr ? StepTime::Track::cpu : StepTime::Track::stream);
  add(nullptr, "D2H copy of the outputs", schedule_.steps.size() + 1, StepTime::Track::copies);
}

void DeviceProgram::check_error(SlotPool::Guard& taken) const {
  const std::optional<unsigned> step = (*taken).take_error();
  if (!step) return;
  taken.done();
  const Node& node = *schedule_.steps.at(*step).node;
  const bool of_lengths =
      node.op == "ReverseSequence" || node.op == "LSTM" || node.op == "GRU" || node.op == "RNN";
  throw Error(Code::invalid_argument,
              describe(node) + (of_lengths ? ": a length" : ": an index") + " is out of range");
}

std::vector<Tensor> DeviceProgram::run(std::span<const Tensor> inputs,
                                       std::vector<StepTime>* times) const {
  check_inputs(inputs);
  const device::DeviceScope on({context_->options.device});
  const NvtxRange range("run");
  const device::GpuActivity::Working working(context_->activity());
  SlotPool::Guard taken(*slots_);
  ExecutionSlot& slot = *taken;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    copy(slot.host_io.inputs[i], inputs[i].data(), inputs[i].bytes());
  if (times != nullptr)
    execute_timed(slot, *times);
  else
    execute(slot, slot.device_io);
  slot.stream.wait();
  check_error(taken);
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
    const TensorType type = type_of(graph_[graph_.outputs[i]]);
    outputs.emplace_back(type.dtype, type.shape);
    copy(outputs.back().data(), slot.host_io.outputs[i], outputs.back().bytes());
  }
  taken.done();
  return outputs;
}

double DeviceProgram::run_on_device(std::span<void* const> inputs, std::span<void* const> outputs,
                                    int runs) const {
  require(inputs.size() == graph_.inputs.size() && outputs.size() == graph_.outputs.size(),
          "as many inputs and outputs are needed as the model has");
  const device::DeviceScope on({context_->options.device});
  const device::GpuActivity::Working working(context_->activity());
  SlotPool::Guard taken(*slots_);
  ExecutionSlot& slot = *taken;
  const IoAddresses io{{inputs.begin(), inputs.end()}, {outputs.begin(), outputs.end()}};
  Timer timer;
  timer.mark(slot.stream.get());
  for (int i = 0; i < runs; ++i) execute(slot, io);
  timer.mark(slot.stream.get());
  slot.copy_error_flag();
  slot.stream.wait();
  check_error(taken);
  taken.done();
  return timer.us(0, 1);
}

}  // namespace

std::shared_ptr<cuda::Context> make_cuda_context(cuda::Options options) {
  return std::make_shared<cuda::Context>(std::move(options));
}

std::unique_ptr<CudaProgram> make_cuda_program(Graph graph, std::shared_ptr<cuda::Context> context,
                                               std::shared_ptr<cpu::Context> host) {
  return std::make_unique<DeviceProgram>(std::move(graph), std::move(context), std::move(host));
}

}  // namespace sluice::engine

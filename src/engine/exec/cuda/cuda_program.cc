#include "engine/exec/cuda/cuda_program.h"

#include <cstring>

#include "engine/exec/cuda/compiled_graph.h"
#include "engine/exec/cuda/context/timer.h"
#include "engine/exec/nvtx_range.h"

namespace sluice::engine {
namespace {

using cuda::CapturedGraphs;
using cuda::CompiledGraph;
using cuda::ExecutionSlot;
using cuda::HostKernel;
using cuda::IoAddresses;
using cuda::RunMemory;
using cuda::SlotPool;
using cuda::Timer;

constexpr std::size_t kMaxCaptured = 4;  // sets of I/O addresses that a slot has graphs for

// Consecutive steps on the device; a step on the host follows each segment but the last.
struct Segment {
  std::size_t begin, end;
};

class DeviceProgram final : public CudaProgram {
 public:
  DeviceProgram(Graph graph, std::shared_ptr<cuda::Context> context,
                std::shared_ptr<cpu::Context> host);

  const Graph& graph() const noexcept override { return compiled_.graph(); }
  const Schedule& schedule() const noexcept override { return compiled_.schedule(); }
  CudaReport report() const override;
  std::vector<Tensor> run(std::span<const Tensor> inputs,
                          std::vector<StepTime>* times) const override;
  double run_on_device(std::span<void* const> inputs, std::span<void* const> outputs,
                       int runs) const override;
  std::size_t trim() const noexcept override { return slots_->trim(); }

 private:
  void split();
  cuda::SlotSize slot_size() const;

  void check_inputs(std::span<const Tensor> inputs) const;
  void copy(void* to, const void* from, std::size_t bytes) const;
  void enqueue_step(std::size_t i, ExecutionSlot& slot, const IoAddresses& io) const;
  void enqueue_segment(std::size_t i, ExecutionSlot& slot, const IoAddresses& io) const;
  void enqueue_end(ExecutionSlot& slot, const IoAddresses& io) const;
  void enqueue(ExecutionSlot& slot, const IoAddresses& io) const;
  void capture(CapturedGraphs& captured, ExecutionSlot& slot, const IoAddresses& io) const;
  void execute(ExecutionSlot& slot, const IoAddresses& io) const;
  void execute_timed(ExecutionSlot& slot, std::vector<StepTime>& times) const;
  // Throws if a step reported an error; the slot remains usable.
  void check_error(SlotPool::Guard& taken) const;

  CompiledGraph compiled_;
  std::vector<Segment> segments_;
  std::unique_ptr<SlotPool> slots_;
  mutable Mutex mutex_;
  mutable std::string not_captured_ GUARDED_BY(mutex_);
};

RunMemory memory_of(const ExecutionSlot& slot, const IoAddresses& io) {
  return {.io = io,
          .arena = static_cast<std::byte*>(slot.arena.get()),
          .host = slot.host.get(),
          .stream = slot.stream.get(),
          .error_flag = slot.error_flag()};
}

DeviceProgram::DeviceProgram(Graph graph, std::shared_ptr<cuda::Context> context,
                             std::shared_ptr<cpu::Context> host)
    : compiled_(std::move(graph), std::move(context), std::move(host)) {
  split();
  const cuda::Context& on = compiled_.context();
  slots_ = std::make_unique<SlotPool>(
      [this, &on] { return std::make_unique<ExecutionSlot>(on, slot_size()); }, on.options.slots);
}

void DeviceProgram::split() {
  std::size_t begin = 0;
  const std::size_t steps = schedule().steps.size();
  for (std::size_t i = 0; i < steps; ++i) {
    if (compiled_.host_kernel(i) == nullptr) continue;
    segments_.push_back({begin, i});
    begin = i + 1;
  }
  segments_.push_back({begin, steps});
}

cuda::SlotSize DeviceProgram::slot_size() const {
  cuda::SlotSize size{.inputs = {}, .outputs = {}, .arena = schedule().arena};
  for (const ValueId id : graph().inputs) size.inputs.push_back(type_of(graph()[id]).bytes());
  for (const ValueId id : graph().outputs) size.outputs.push_back(type_of(graph()[id]).bytes());
  size.host = compiled_.host_bytes();
  return size;
}

CudaReport DeviceProgram::report() const {
  CudaReport report{.on_host = {},
                    .constants = compiled_.context().constant_bytes(),
                    .arena = schedule().arena,
                    .peak_live = schedule().peak_live,
                    .unshared = schedule().unshared,
                    .not_captured = {}};
  for (std::size_t i = 0; i < schedule().steps.size(); ++i)
    if (const HostKernel* const host = compiled_.host_kernel(i))
      report.on_host.push_back({describe(*schedule().steps[i].node), host->copied()});
    else
      ++report.device_steps;
  const cuda::SlotSize size = slot_size();
  for (const std::size_t bytes : size.inputs) report.io_bytes += bytes;
  for (const std::size_t bytes : size.outputs) report.io_bytes += bytes;
  report.pinned = size.pinned();
  const Lock lock(mutex_);
  report.not_captured = not_captured_;
  return report;
}

void DeviceProgram::check_inputs(std::span<const Tensor> inputs) const {
  require(inputs.size() == graph().inputs.size(),
          "the model takes " + std::to_string(graph().inputs.size()) + " inputs, not " +
              std::to_string(inputs.size()));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Value& value = graph()[graph().inputs[i]];
    const TensorType type = type_of(value);
    require(type == TensorType{inputs[i].dtype(), inputs[i].shape()},
            "input '" + value.name + "' was compiled for " + to_string(type.shape) + ", not " +
                to_string(inputs[i].shape()));
  }
}

// Copies to and from pinned memory on all cores: a single core would be slower than the bus.
void DeviceProgram::copy(void* to, const void* from, std::size_t bytes) const {
  constexpr std::size_t kChunk = 1 << 20;
  compiled_.host().workers.each(bytes, kChunk, [&](std::size_t begin, std::size_t end) {
    std::memcpy(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
                end - begin);
  });
}

void DeviceProgram::enqueue_step(std::size_t i, ExecutionSlot& slot, const IoAddresses& io) const {
  compiled_.enqueue_step(i, memory_of(slot, io));
}

void DeviceProgram::enqueue_segment(std::size_t i, ExecutionSlot& slot,
                                    const IoAddresses& io) const {
  if (i == 0 && io == slot.device_io) slot.copy_in();
  for (std::size_t s = segments_[i].begin; s < segments_[i].end; ++s) enqueue_step(s, slot, io);
  if (i + 1 == segments_.size()) enqueue_end(slot, io);
}

void DeviceProgram::enqueue_end(ExecutionSlot& slot, const IoAddresses& io) const {
  compiled_.enqueue_output_copies(memory_of(slot, io));
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
  for (std::size_t i = 0; i < schedule().steps.size(); ++i) {
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
  for (std::size_t i = 0; i < schedule().steps.size(); ++i)
    add(schedule().steps[i].node, schedule().steps[i].kernel->name(), i + 1,
        compiled_.host_kernel(i) != nullptr ? StepTime::Track::cpu : StepTime::Track::stream);
  add(nullptr, "D2H copy of the outputs", schedule().steps.size() + 1, StepTime::Track::copies);
}

void DeviceProgram::check_error(SlotPool::Guard& taken) const {
  const std::optional<unsigned> step = (*taken).take_error();
  if (!step) return;
  taken.done();
  throw compiled_.step_error(*step);
}

std::vector<Tensor> DeviceProgram::run(std::span<const Tensor> inputs,
                                       std::vector<StepTime>* times) const {
  check_inputs(inputs);
  const device::DeviceScope on({compiled_.context().options.device});
  const NvtxRange range("run");
  const device::GpuActivity::Working working(compiled_.context().activity());
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
  for (std::size_t i = 0; i < graph().outputs.size(); ++i) {
    const TensorType type = type_of(graph()[graph().outputs[i]]);
    outputs.emplace_back(type.dtype, type.shape);
    copy(outputs.back().data(), slot.host_io.outputs[i], outputs.back().bytes());
  }
  taken.done();
  return outputs;
}

double DeviceProgram::run_on_device(std::span<void* const> inputs, std::span<void* const> outputs,
                                    int runs) const {
  require(inputs.size() == graph().inputs.size() && outputs.size() == graph().outputs.size(),
          "as many inputs and outputs are needed as the model has");
  const device::DeviceScope on({compiled_.context().options.device});
  const device::GpuActivity::Working working(compiled_.context().activity());
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

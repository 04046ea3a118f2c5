#include "engine/exec/cuda/cuda_program.h"

#include <cstring>

#include "engine/exec/cuda/context/execution_slot.h"
#include "engine/exec/cuda/host_kernel.h"
#include "engine/exec/nvtx_range.h"

namespace sluice::engine {
namespace {

using cuda::Ends;
using cuda::HostStep;
using cuda::Lane;
using cuda::Lanes;
using cuda::Recorded;

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kMostRecorded = 4;  // places of the ends that a lane has graphs for

// Steps of the device that follow each other; after all but the last comes one of the host.
struct Stretch {
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
  std::size_t trim() const noexcept override { return lanes_->trim(); }

 private:
  class Timer;

  void make_kernels();
  void upload_constants();
  void split();
  cuda::LaneSize lane_size() const;

  void check_inputs(std::span<const Tensor> inputs) const;
  void copy(void* to, const void* from, std::size_t bytes) const;
  void* address(const Where& where, const Lane& lane, const Ends& ends, bool on_host) const;
  void enqueue_step(std::size_t i, Lane& lane, const Ends& ends) const;
  void enqueue_stretch(std::size_t i, Lane& lane, const Ends& ends) const;
  void enqueue_end(Lane& lane, const Ends& ends) const;
  void enqueue(Lane& lane, const Ends& ends) const;
  void record(Recorded& recorded, Lane& lane, const Ends& ends) const;
  void execute(Lane& lane, const Ends& ends) const;
  void execute_timed(Lane& lane, std::vector<StepTime>& times) const;
  // Throws where a step told of an error; the lane is good for the next run.
  void check_error(Lanes::Taken& taken) const;

  Graph graph_;
  std::shared_ptr<cuda::Context> context_;
  std::shared_ptr<cpu::Context> host_;
  std::vector<std::unique_ptr<Kernel>> kernels_;  // by node, null for views
  std::vector<cuda::ConstMemory> constants_;      // by value, those that are on the device
  Schedule schedule_;
  std::vector<const HostStep*> host_steps_;  // by step, null on the device
  std::vector<Stretch> stretches_;
  std::unique_ptr<Lanes> lanes_;
  mutable Mutex mutex_;
  mutable std::string not_recorded_ GUARDED_BY(mutex_);
};

// Events before each step and after the last.
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
  lanes_ = std::make_unique<Lanes>(
      [this] { return std::make_unique<Lane>(*context_, lane_size()); }, context_->options.lanes);
}

void DeviceProgram::make_kernels() {
  for (const Node& node : graph_.nodes) {
    std::unique_ptr<Kernel> kernel;
    if (!is_view(node)) kernel = cuda::make_kernel(graph_, node, *context_);
    if (!is_view(node) && !kernel) kernel = std::make_unique<HostStep>(graph_, node, *host_);
    kernels_.push_back(std::move(kernel));
  }
}

void DeviceProgram::upload_constants() {
  constants_.resize(graph_.values.size());
  const auto upload = [&](const Where& where) {
    if (where.kind == Where::Kind::constant && !constants_[where.at])
      constants_[where.at] = context_->constant(graph_.values[where.at].constant);
  };
  for (std::size_t s = 0; s < schedule_.steps.size(); ++s) {
    const Step& step = schedule_.steps[s];
    for (std::size_t i = 0; i < step.inputs.size(); ++i)
      if (host_steps_[s] == nullptr && step.kernel->reads_constant(i)) upload(step.inputs[i]);
  }
  for (const LastCopy& copy : schedule_.copies) upload(copy.from);
}

void DeviceProgram::split() {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
    host_steps_.push_back(dynamic_cast<const HostStep*>(schedule_.steps[i].kernel));
    if (host_steps_.back() == nullptr) continue;
    stretches_.push_back({begin, i});
    begin = i + 1;
  }
  stretches_.push_back({begin, schedule_.steps.size()});
}

cuda::LaneSize DeviceProgram::lane_size() const {
  cuda::LaneSize size{.inputs = {}, .outputs = {}, .arena = schedule_.arena};
  for (const ValueId id : graph_.inputs) size.inputs.push_back(type_of(graph_[id]).bytes());
  for (const ValueId id : graph_.outputs) size.outputs.push_back(type_of(graph_[id]).bytes());
  for (const HostStep* step : host_steps_)
    if (step != nullptr) size.host = std::max(size.host, step->host_bytes());
  return size;
}

CudaReport DeviceProgram::report() const {
  CudaReport report{.on_host = {},
                    .constants = context_->constant_bytes(),
                    .arena = schedule_.arena,
                    .least = schedule_.least,
                    .unshared = schedule_.unshared,
                    .not_recorded = {}};
  for (std::size_t i = 0; i < host_steps_.size(); ++i)
    if (host_steps_[i] == nullptr)
      ++report.device_steps;
    else
      report.on_host.push_back({describe(*schedule_.steps[i].node), host_steps_[i]->copied()});
  const cuda::LaneSize size = lane_size();
  for (const std::size_t bytes : size.inputs) report.ends += bytes;
  for (const std::size_t bytes : size.outputs) report.ends += bytes;
  report.pinned = size.pinned();
  const Lock lock(mutex_);
  report.not_recorded = not_recorded_;
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

// To and from pinned memory; a single core would be slower than the bus.
void DeviceProgram::copy(void* to, const void* from, std::size_t bytes) const {
  constexpr std::size_t kPiece = 1 << 20;
  host_->workers.each(bytes, kPiece, [&](std::size_t begin, std::size_t end) {
    std::memcpy(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
                end - begin);
  });
}

void* DeviceProgram::address(const Where& where, const Lane& lane, const Ends& ends,
                             bool on_host) const {
  switch (where.kind) {
    case Where::Kind::none: return nullptr;
    case Where::Kind::constant:
      return on_host ? graph_.values[where.at].constant.data()
                     : const_cast<void*>(constants_[where.at].get());
    case Where::Kind::input: return ends.inputs[where.at];
    case Where::Kind::output: return ends.outputs[where.at];
    case Where::Kind::arena: return static_cast<std::byte*>(lane.arena.get()) + where.at;
  }
  return nullptr;
}

void DeviceProgram::enqueue_step(std::size_t i, Lane& lane, const Ends& ends) const {
  const Step& step = schedule_.steps[i];
  const bool on_host = host_steps_[i] != nullptr;
  std::vector<void*> from, to;
  for (const Where& where : step.inputs) from.push_back(address(where, lane, ends, on_host));
  for (const Where& where : step.outputs) to.push_back(address(where, lane, ends, on_host));
  void* const scratch =
      on_host ? lane.host.get() : static_cast<std::byte*>(lane.arena.get()) + step.scratch;
  const Range range(name_of(*step.node));
  try {
    step.kernel->run(
        {from, to, scratch, lane.stream.get(), {lane.error_flag(), static_cast<unsigned>(i)}});
  } catch (const device::GpuError& error) {
    throw device::GpuError(error.status(),
                           describe(*step.node) + ": " + std::string(error.reason()));
  } catch (const Error& error) {
    throw Error(error.code(), describe(*step.node) + ": " + std::string(error.reason()));
  }
}

void DeviceProgram::enqueue_stretch(std::size_t i, Lane& lane, const Ends& ends) const {
  if (i == 0 && ends == lane.own) lane.copy_in();
  for (std::size_t s = stretches_[i].begin; s < stretches_[i].end; ++s) enqueue_step(s, lane, ends);
  if (i + 1 == stretches_.size()) enqueue_end(lane, ends);
}

void DeviceProgram::enqueue_end(Lane& lane, const Ends& ends) const {
  for (const LastCopy& copy : schedule_.copies) {
    const std::size_t bytes = type_of(graph_[graph_.outputs[copy.output]]).bytes();
    if (bytes > 0)
      device::check(cudaMemcpyAsync(ends.outputs[copy.output],
                                    address(copy.from, lane, ends, false), bytes,
                                    cudaMemcpyDeviceToDevice, lane.stream.get()));
  }
  if (ends == lane.own) lane.copy_out();
}

void DeviceProgram::enqueue(Lane& lane, const Ends& ends) const {
  for (std::size_t i = 0; i < stretches_.size(); ++i) {
    enqueue_stretch(i, lane, ends);
    if (i + 1 < stretches_.size()) enqueue_step(stretches_[i].end, lane, ends);
  }
}

void DeviceProgram::record(Recorded& recorded, Lane& lane, const Ends& ends) const {
  try {
    for (std::size_t i = 0; i < stretches_.size(); ++i)
      recorded.stretches.push_back(
          cuda::GraphExec::capture(lane.stream.get(), [&] { enqueue_stretch(i, lane, ends); }));
    recorded.state = Recorded::State::recorded;
  } catch (const Error& error) {
    if (device::gpu_status_of(error) == device::GpuStatus::lost) throw;
    recorded = {.state = Recorded::State::refused, .stretches = {}};
    const Lock lock(mutex_);
    not_recorded_ = error.reason();
  }
}

// The first time one by one, since libraries load code and choose then.
void DeviceProgram::execute(Lane& lane, const Ends& ends) const {
  if (lane.recorded.size() > kMostRecorded) lane.recorded.clear();
  Recorded& recorded = lane.recorded[ends];
  if (recorded.state == Recorded::State::warm) record(recorded, lane, ends);
  if (recorded.state != Recorded::State::recorded) {
    enqueue(lane, ends);
    if (recorded.state == Recorded::State::fresh) recorded.state = Recorded::State::warm;
    return;
  }
  for (std::size_t i = 0; i < stretches_.size(); ++i) {
    recorded.stretches[i].launch(lane.stream.get());
    if (i + 1 < stretches_.size()) enqueue_step(stretches_[i].end, lane, ends);
  }
}

void DeviceProgram::execute_timed(Lane& lane, std::vector<StepTime>& times) const {
  Timer timer;  // its marks: before the copy in, before each step, before the copy out, after it
  timer.mark(lane.stream.get());
  lane.copy_in();
  for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
    timer.mark(lane.stream.get());
    enqueue_step(i, lane, lane.own);
  }
  timer.mark(lane.stream.get());
  enqueue_end(lane, lane.own);
  timer.mark(lane.stream.get());
  lane.stream.wait();
  const auto add = [&](const Node* node, std::string_view what, std::size_t mark,
                       StepTime::Lane on) {
    times.push_back({node, what, timer.us(0, mark), timer.us(mark, mark + 1), on});
  };
  add(nullptr, "copy of the inputs", 0, StepTime::Lane::copies);
  for (std::size_t i = 0; i < schedule_.steps.size(); ++i)
    add(schedule_.steps[i].node, schedule_.steps[i].kernel->what(), i + 1,
        host_steps_[i] != nullptr ? StepTime::Lane::cpu : StepTime::Lane::stream);
  add(nullptr, "copy of the outputs", schedule_.steps.size() + 1, StepTime::Lane::copies);
}

void DeviceProgram::check_error(Lanes::Taken& taken) const {
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
  const Range range("run");
  const device::GpuActivity::Working working(context_->activity());
  Lanes::Taken taken(*lanes_);
  Lane& lane = *taken;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    copy(lane.mirror.inputs[i], inputs[i].data(), inputs[i].bytes());
  if (times != nullptr)
    execute_timed(lane, *times);
  else
    execute(lane, lane.own);
  lane.stream.wait();
  check_error(taken);
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
    const TensorType type = type_of(graph_[graph_.outputs[i]]);
    outputs.emplace_back(type.dtype, type.shape);
    copy(outputs.back().data(), lane.mirror.outputs[i], outputs.back().bytes());
  }
  taken.done();
  return outputs;
}

double DeviceProgram::run_on_device(std::span<void* const> inputs, std::span<void* const> outputs,
                                    int runs) const {
  require(inputs.size() == graph_.inputs.size() && outputs.size() == graph_.outputs.size(),
          "as many inputs and outputs as the model has");
  const device::DeviceScope on({context_->options.device});
  const device::GpuActivity::Working working(context_->activity());
  Lanes::Taken taken(*lanes_);
  Lane& lane = *taken;
  const Ends ends{{inputs.begin(), inputs.end()}, {outputs.begin(), outputs.end()}};
  Timer timer;
  timer.mark(lane.stream.get());
  for (int i = 0; i < runs; ++i) execute(lane, ends);
  timer.mark(lane.stream.get());
  lane.copy_error_flag();
  lane.stream.wait();
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

#include "engine/exec/cuda/bucket_program.h"

#include <cstring>
#include <utility>

#include "base/error.h"
#include "device/cuda/device_scope.h"
#include "engine/exec/cuda/compiled_graph.h"
#include "engine/exec/cuda/context/cuda_graph.h"
#include "engine/exec/cuda/context/stream_slot.h"
#include "engine/exec/cuda/context/timer.h"
#include "kernels/data_movement/packed_inputs.h"
#include "tensor/byte_size.h"

namespace sluice::engine {
namespace {

using cuda::CompiledGraph;
using cuda::IdType;
using cuda::IoAddresses;
using cuda::Lane;
using cuda::LanePool;
using cuda::PackedBatchHeader;
using cuda::PackedInputsCall;
using cuda::TokenInput;
using kernels::LiveCounts;
using kernels::RowsOf;

constexpr std::size_t kHeaderBytes = cuda::kPackedBatchHeaderBytes;
constexpr unsigned kNoError = ~0u;

std::size_t round_up(std::size_t bytes) { return memory::round_up(bytes, memory::kAlignment); }

// What is set to all ones before each batch.
struct BatchState {
  unsigned error;
  kernels::WorkQueue queue;
};
static_assert(sizeof(BatchState) <= memory::kAlignment);

// Where a lane's memory holds what: the batch as it was copied, the model's inputs, its state with
// the error flag and the output, which are copied back at once, and the arena of the graph.
struct LaneLayout {
  std::size_t batch = 0, state = 0, output = 0, arena = 0, bytes = 0;
  std::vector<std::size_t> inputs{};
  std::size_t pinned_rows = 0,
              pinned_bytes = 0;  // in pinned memory: the batch, then state and rows

  LaneLayout(const BucketGraph& bucket, const Schedule& schedule) {
    const Shape numbers{bucket.sequences + 1 + 2 * bucket.tokens};
    const std::size_t copied = round_up(kHeaderBytes + byte_size(numbers, DType::i32));
    std::size_t at = copied;
    for (std::size_t i = 0; i < bucket.inputs.size(); ++i) {
      const bool in_batch = bucket.inputs[i] == BucketGraph::Input::cu_seqlens;
      inputs.push_back(in_batch ? batch + kHeaderBytes : at);
      if (!in_batch) at += round_up(type_of(bucket.graph[bucket.graph.inputs[i]]).bytes());
    }
    state = at;
    output = state + memory::kAlignment;
    const std::size_t rows = type_of(bucket.graph[bucket.graph.outputs[0]]).bytes();
    arena = output + round_up(rows);
    bytes = arena + schedule.arena;
    pinned_rows = copied;
    pinned_bytes = copied + memory::kAlignment + rows;
  }
};

IdType id_type(DType type) {
  switch (type) {
    case DType::i32: return IdType::i32;
    case DType::i64: return IdType::i64;
    case DType::f32: return IdType::f32;
    case DType::boolean: return IdType::boolean;
    default: throw Error(Code::unavailable, "token ids of this type");
  }
}

TokenInput::Holds holds(BucketGraph::Input input) {
  switch (input) {
    case BucketGraph::Input::ids: return TokenInput::Holds::ids;
    case BucketGraph::Input::type_ids: return TokenInput::Holds::type_ids;
    case BucketGraph::Input::positions: return TokenInput::Holds::positions;
    default: return TokenInput::Holds::ones;
  }
}

std::vector<cuda::NodeRows> node_rows(const BucketGraph& bucket) {
  std::vector<cuda::NodeRows> rows;
  for (const RowsOf of : bucket.rows)
    rows.push_back({of, of == RowsOf::tokens ? bucket.tokens : bucket.sequences});
  return rows;
}

class DeviceBucketProgram final : public BucketProgram {
 public:
  DeviceBucketProgram(BucketGraph bucket, std::shared_ptr<LanePool> lanes,
                      const std::shared_ptr<cpu::Context>& host)
      : inputs_(bucket.inputs),
        tokens_(bucket.tokens),
        sequences_(bucket.sequences),
        output_(bucket.output),
        row_bytes_(byte_size(Shape{bucket.width}, DType::f32)),
        compiled_(bucket.graph, lanes->shared_context(), host, node_rows(bucket)),
        layout_(bucket, compiled_.schedule()),
        lanes_(std::move(lanes)),
        captured_(lanes_->lanes()) {
    for (std::size_t i = 0; i < compiled_.schedule().steps.size(); ++i)
      if (compiled_.host_kernel(i) != nullptr)
        throw Error(Code::unavailable, describe(*compiled_.schedule().steps[i].node) +
                                           " has no CUDA kernel for packed sequences");
    require(inputs_.size() <= PackedInputsCall::kMaxInputs, "an encoder of so many inputs");
  }

  std::unique_ptr<Call> start(const LiveCounts& counts, bool has_types, const Fill& fill,
                              bool may_wait) const override;
  void prepare() const override;
  std::vector<KernelTime> profile(const LiveCounts& counts, bool has_types,
                                  const Fill& fill) const override;
  const Graph& graph() const override { return compiled_.graph(); }
  std::size_t lane_bytes() const override { return layout_.bytes; }

 private:
  class DeviceCall;
  // The graph of a lane, which only who holds the lane looks at.
  struct Captured {
    enum class State { fresh, warm, captured } state = State::fresh;
    std::uint64_t generation = 0;
    cuda::GraphExec graph{};
  };

  // Enqueues everything between the two copies; calls before(step) before each step, and at the
  // end.
  template <class Before>
  void enqueue(Lane& lane, const Before& before) const;
  void enqueue(Lane& lane) const {
    enqueue(lane, [](std::size_t) {});
  }
  void launch(Lane& lane) const;
  // Both copies, and what is between them.
  void enqueue_call(Lane& lane, const LiveCounts& counts, bool has_types, const Fill& fill) const;
  std::size_t write(Lane& lane, const LiveCounts& counts, bool has_types, const Fill& fill) const;
  std::size_t rows_of(const LiveCounts& counts) const {
    return static_cast<std::size_t>(output_ == RowsOf::tokens ? counts.tokens : counts.sequences);
  }

  const std::vector<BucketGraph::Input> inputs_;
  const std::int64_t tokens_, sequences_;
  const RowsOf output_;
  const std::size_t row_bytes_;
  const CompiledGraph compiled_;
  const LaneLayout layout_;
  const std::shared_ptr<LanePool> lanes_;
  mutable std::vector<Captured> captured_;
};

class DeviceBucketProgram::DeviceCall final : public Call {
 public:
  DeviceCall(const DeviceBucketProgram& program, LanePool::Guard lane)
      : program_(program), lane_(std::move(lane)), working_(program.lanes_->context().activity()) {}

  Lane& lane() const { return *lane_; }

  const float* wait() override {
    lane_->stream.wait();
    const std::byte* const rows = lane_->pinned() + program_.layout_.pinned_rows;
    unsigned step = kNoError;
    std::memcpy(&step, rows, sizeof step);
    if (step != kNoError) throw program_.compiled_.step_error(step);
    return reinterpret_cast<const float*>(rows + memory::kAlignment);
  }

 private:
  const DeviceBucketProgram& program_;
  LanePool::Guard lane_;
  const device::GpuActivity::Working working_;
};

template <class Before>
void DeviceBucketProgram::enqueue(Lane& lane, const Before& before) const {
  std::byte* const base = lane.memory();
  PackedInputsCall inputs{.batch = base + layout_.batch, .inputs = {}};
  inputs.sequences = static_cast<int>(sequences_);
  IoAddresses io{{}, {base + layout_.output}};
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    io.inputs.push_back(base + layout_.inputs[i]);
    if (inputs_[i] != BucketGraph::Input::cu_seqlens)
      inputs.inputs[inputs.count++] = {holds(inputs_[i]), id_type(graph()[graph().inputs[i]].dtype),
                                       io.inputs.back()};
  }
  auto* const state = reinterpret_cast<BatchState*>(base + layout_.state);
  device::check(cudaMemsetAsync(state, 0xff, sizeof *state, lane.stream.get()));
  cuda::enqueue_packed_inputs(inputs, lane.stream.get());
  const cuda::RunMemory memory{
      .io = io,
      .arena = base + layout_.arena,
      .host = nullptr,
      .stream = lane.stream.get(),
      .error_flag = &state->error,
      .live = &reinterpret_cast<const PackedBatchHeader*>(base + layout_.batch)->counts,
      .queue = &state->queue};
  const std::size_t steps = compiled_.schedule().steps.size();
  for (std::size_t i = 0; i < steps; ++i) {
    before(i);
    compiled_.enqueue_step(i, memory);
  }
  before(steps);
  compiled_.enqueue_output_copies(memory);
}

// The first run on a lane launches the kernels one by one, since their code is loaded then.
void DeviceBucketProgram::launch(Lane& lane) const {
  Captured& captured = captured_[lane.index];
  if (captured.state == Captured::State::fresh) {
    enqueue(lane);
    captured.state = Captured::State::warm;
    return;
  }
  if (captured.state == Captured::State::warm || captured.generation != lane.generation()) {
    captured.graph = cuda::GraphExec::capture(lane.stream.get(), [&] { enqueue(lane); });
    captured.generation = lane.generation();
    captured.state = Captured::State::captured;
  }
  captured.graph.launch(lane.stream.get());
}

// Writes the batch to pinned memory; the bytes to be copied.
std::size_t DeviceBucketProgram::write(Lane& lane, const LiveCounts& counts, bool has_types,
                                       const Fill& fill) const {
  const PackedBatchHeader header{.counts = counts, .has_types = has_types ? 1 : 0};
  std::memcpy(lane.pinned(), &header, sizeof header);
  auto* const cu_seqlens = reinterpret_cast<std::int32_t*>(lane.pinned() + kHeaderBytes);
  std::int32_t* const ids = cu_seqlens + counts.sequences + 1;
  std::int32_t* const types = ids + counts.tokens;
  fill({.cu_seqlens = cu_seqlens, .ids = ids, .type_ids = has_types ? types : nullptr});
  const auto* const end =
      reinterpret_cast<const std::byte*>(types + (has_types ? counts.tokens : 0));
  return static_cast<std::size_t>(end - lane.pinned());
}

std::unique_ptr<BucketProgram::Call> DeviceBucketProgram::start(const LiveCounts& counts,
                                                                bool has_types, const Fill& fill,
                                                                bool may_wait) const {
  require(counts.tokens <= tokens_ && counts.sequences <= sequences_ && counts.tokens >= 0 &&
              counts.sequences >= 0,
          "a batch of " + std::to_string(counts.tokens) + " tokens in a bucket of " +
              std::to_string(tokens_));
  const device::DeviceScope on({lanes_->context().options.device});
  std::optional<LanePool::Guard> lane = may_wait
                                            ? lanes_->take(layout_.bytes, layout_.pinned_bytes)
                                            : lanes_->try_take(layout_.bytes, layout_.pinned_bytes);
  if (!lane) return nullptr;
  auto call = std::make_unique<DeviceCall>(*this, std::move(*lane));
  enqueue_call(call->lane(), counts, has_types, fill);
  return call;
}

void DeviceBucketProgram::enqueue_call(Lane& lane, const LiveCounts& counts, bool has_types,
                                       const Fill& fill) const {
  const std::size_t bytes = write(lane, counts, has_types, fill);
  cudaStream_t const stream = lane.stream.get();
  device::check(cudaMemcpyAsync(lane.memory() + layout_.batch, lane.pinned(), bytes,
                                cudaMemcpyHostToDevice, stream));
  launch(lane);
  device::check(cudaMemcpyAsync(lane.pinned() + layout_.pinned_rows, lane.memory() + layout_.state,
                                memory::kAlignment + rows_of(counts) * row_bytes_,
                                cudaMemcpyDeviceToHost, stream));
}

std::vector<KernelTime> DeviceBucketProgram::profile(const LiveCounts& counts, bool has_types,
                                                     const Fill& fill) const {
  const device::DeviceScope on({lanes_->context().options.device});
  LanePool::Guard lane = lanes_->take(layout_.bytes, layout_.pinned_bytes);
  const std::size_t bytes = write(*lane, counts, has_types, fill);
  device::check(cudaMemcpyAsync(lane->memory() + layout_.batch, lane->pinned(), bytes,
                                cudaMemcpyHostToDevice, lane->stream.get()));
  enqueue(*lane);  // warm
  cuda::Timer timer;
  enqueue(*lane, [&](std::size_t) { timer.mark(lane->stream.get()); });
  lane->stream.wait();
  std::vector<KernelTime> times;
  for (std::size_t i = 0; i < compiled_.schedule().steps.size(); ++i) {
    const ScheduleStep& step = compiled_.schedule().steps[i];
    times.push_back({describe(*step.node), std::string(step.kernel->name()), timer.us(i, i + 1)});
  }
  return times;
}

void DeviceBucketProgram::prepare() const {
  const device::DeviceScope on({lanes_->context().options.device});
  const auto empty = [](const PackedBatchMemory& to) { to.cu_seqlens[0] = 0; };
  for (std::size_t i = 0; i < lanes_->lanes(); ++i) try {
      const DeviceCall call(*this, lanes_->take_modestly(layout_.bytes, layout_.pinned_bytes));
      for (int time = 0; time < 2; ++time) {
        enqueue_call(call.lane(), {}, false, empty);
        call.lane().stream.wait();
      }
    } catch (const Error& error) {
      if (i == 0 || error.code() != Code::exhausted) throw;
    }
}

}  // namespace

std::shared_ptr<LanePool> make_cuda_lanes(std::shared_ptr<cuda::Context> context,
                                          std::size_t lanes) {
  return std::make_shared<LanePool>(std::move(context), lanes);
}

std::size_t free_lane_bytes(const LanePool& lanes) { return lanes.free_bytes(); }
std::size_t trim_lanes(LanePool& lanes) noexcept { return lanes.trim(); }

std::shared_ptr<const BucketProgram> make_bucket_program(
    BucketGraph graph, std::shared_ptr<LanePool> lanes, const std::shared_ptr<cpu::Context>& host) {
  return std::make_shared<DeviceBucketProgram>(std::move(graph), std::move(lanes), host);
}

}  // namespace sluice::engine

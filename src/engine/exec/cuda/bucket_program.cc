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
using cuda::PackedBatchHeader;
using cuda::PackedInputsCall;
using cuda::StreamSlot;
using cuda::StreamSlotPool;
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

// Where a slot's memory holds what: the batch as it was copied, the model's inputs, its state with
// the error flag and the output, which are copied back at once, and the arena of the graph.
struct SlotLayout {
  std::size_t batch = 0, state = 0, output = 0, arena = 0, bytes = 0;
  std::vector<std::size_t> inputs{};
  std::size_t pinned_rows = 0,
              pinned_bytes = 0;  // in pinned memory: the batch, then state and rows

  SlotLayout(const BucketGraph& bucket, const Schedule& schedule) {
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
  DeviceBucketProgram(BucketGraph bucket, std::shared_ptr<StreamSlotPool> slots,
                      const std::shared_ptr<cpu::Context>& host)
      : inputs_(bucket.inputs),
        tokens_(bucket.tokens),
        sequences_(bucket.sequences),
        output_(bucket.output),
        row_bytes_(byte_size(Shape{bucket.width}, DType::f32)),
        compiled_(bucket.graph, slots->shared_context(), host, node_rows(bucket)),
        layout_(bucket, compiled_.schedule()),
        slots_(std::move(slots)),
        captured_(slots_->slots()) {
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
  std::size_t slot_bytes() const override { return layout_.bytes; }

 private:
  class DeviceCall;
  // The graph of a slot, which only who holds the slot looks at.
  struct Captured {
    enum class State { fresh, warm, captured } state = State::fresh;
    std::uint64_t generation = 0;
    cuda::GraphExec graph{};
  };

  // Enqueues everything between the two copies; calls before(step) before each step, and at the
  // end.
  template <class Before>
  void enqueue(StreamSlot& slot, const Before& before) const;
  void enqueue(StreamSlot& slot) const {
    enqueue(slot, [](std::size_t) {});
  }
  void launch(StreamSlot& slot) const;
  // Both copies, and what is between them.
  void enqueue_call(StreamSlot& slot, const LiveCounts& counts, bool has_types,
                    const Fill& fill) const;
  std::size_t write(StreamSlot& slot, const LiveCounts& counts, bool has_types,
                    const Fill& fill) const;
  std::size_t rows_of(const LiveCounts& counts) const {
    return static_cast<std::size_t>(output_ == RowsOf::tokens ? counts.tokens : counts.sequences);
  }

  const std::vector<BucketGraph::Input> inputs_;
  const std::int64_t tokens_, sequences_;
  const RowsOf output_;
  const std::size_t row_bytes_;
  const CompiledGraph compiled_;
  const SlotLayout layout_;
  const std::shared_ptr<StreamSlotPool> slots_;
  mutable std::vector<Captured> captured_;
};

class DeviceBucketProgram::DeviceCall final : public Call {
 public:
  DeviceCall(const DeviceBucketProgram& program, StreamSlotPool::Guard slot)
      : program_(program), slot_(std::move(slot)), working_(program.slots_->context().activity()) {}

  StreamSlot& slot() const { return *slot_; }

  const float* wait() override {
    slot_->stream.wait();
    const std::byte* const rows = slot_->pinned() + program_.layout_.pinned_rows;
    unsigned step = kNoError;
    std::memcpy(&step, rows, sizeof step);
    if (step != kNoError) throw program_.compiled_.step_error(step);
    return reinterpret_cast<const float*>(rows + memory::kAlignment);
  }

 private:
  const DeviceBucketProgram& program_;
  StreamSlotPool::Guard slot_;
  const device::GpuActivity::Working working_;
};

template <class Before>
void DeviceBucketProgram::enqueue(StreamSlot& slot, const Before& before) const {
  std::byte* const base = slot.memory();
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
  device::check(cudaMemsetAsync(state, 0xff, sizeof *state, slot.stream.get()));
  cuda::enqueue_packed_inputs(inputs, slot.stream.get());
  const cuda::RunMemory memory{
      .io = io,
      .arena = base + layout_.arena,
      .host = nullptr,
      .stream = slot.stream.get(),
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

// The first run on a slot launches the kernels one by one, since their code is loaded then.
void DeviceBucketProgram::launch(StreamSlot& slot) const {
  Captured& captured = captured_[slot.index];
  if (captured.state == Captured::State::fresh) {
    enqueue(slot);
    captured.state = Captured::State::warm;
    return;
  }
  if (captured.state == Captured::State::warm || captured.generation != slot.generation()) {
    captured.graph = cuda::GraphExec::capture(slot.stream.get(), [&] { enqueue(slot); });
    captured.generation = slot.generation();
    captured.state = Captured::State::captured;
  }
  captured.graph.launch(slot.stream.get());
}

// Writes the batch to pinned memory; the bytes to be copied.
std::size_t DeviceBucketProgram::write(StreamSlot& slot, const LiveCounts& counts, bool has_types,
                                       const Fill& fill) const {
  const PackedBatchHeader header{.counts = counts, .has_types = has_types ? 1 : 0};
  std::memcpy(slot.pinned(), &header, sizeof header);
  auto* const cu_seqlens = reinterpret_cast<std::int32_t*>(slot.pinned() + kHeaderBytes);
  std::int32_t* const ids = cu_seqlens + counts.sequences + 1;
  std::int32_t* const types = ids + counts.tokens;
  fill({.cu_seqlens = cu_seqlens, .ids = ids, .type_ids = has_types ? types : nullptr});
  const auto* const end =
      reinterpret_cast<const std::byte*>(types + (has_types ? counts.tokens : 0));
  return static_cast<std::size_t>(end - slot.pinned());
}

std::unique_ptr<BucketProgram::Call> DeviceBucketProgram::start(const LiveCounts& counts,
                                                                bool has_types, const Fill& fill,
                                                                bool may_wait) const {
  require(counts.tokens <= tokens_ && counts.sequences <= sequences_ && counts.tokens >= 0 &&
              counts.sequences >= 0,
          "a batch of " + std::to_string(counts.tokens) + " tokens in a bucket of " +
              std::to_string(tokens_));
  const device::DeviceScope on({slots_->context().options.device});
  std::optional<StreamSlotPool::Guard> slot =
      may_wait ? slots_->take(layout_.bytes, layout_.pinned_bytes)
               : slots_->try_take(layout_.bytes, layout_.pinned_bytes);
  if (!slot) return nullptr;
  auto call = std::make_unique<DeviceCall>(*this, std::move(*slot));
  enqueue_call(call->slot(), counts, has_types, fill);
  return call;
}

void DeviceBucketProgram::enqueue_call(StreamSlot& slot, const LiveCounts& counts, bool has_types,
                                       const Fill& fill) const {
  const std::size_t bytes = write(slot, counts, has_types, fill);
  cudaStream_t const stream = slot.stream.get();
  device::check(cudaMemcpyAsync(slot.memory() + layout_.batch, slot.pinned(), bytes,
                                cudaMemcpyHostToDevice, stream));
  launch(slot);
  device::check(cudaMemcpyAsync(slot.pinned() + layout_.pinned_rows, slot.memory() + layout_.state,
                                memory::kAlignment + rows_of(counts) * row_bytes_,
                                cudaMemcpyDeviceToHost, stream));
}

std::vector<KernelTime> DeviceBucketProgram::profile(const LiveCounts& counts, bool has_types,
                                                     const Fill& fill) const {
  const device::DeviceScope on({slots_->context().options.device});
  StreamSlotPool::Guard slot = slots_->take(layout_.bytes, layout_.pinned_bytes);
  const std::size_t bytes = write(*slot, counts, has_types, fill);
  device::check(cudaMemcpyAsync(slot->memory() + layout_.batch, slot->pinned(), bytes,
                                cudaMemcpyHostToDevice, slot->stream.get()));
  enqueue(*slot);  // warm
  cuda::Timer timer;
  enqueue(*slot, [&](std::size_t) { timer.mark(slot->stream.get()); });
  slot->stream.wait();
  std::vector<KernelTime> times;
  for (std::size_t i = 0; i < compiled_.schedule().steps.size(); ++i) {
    const ScheduleStep& step = compiled_.schedule().steps[i];
    times.push_back({describe(*step.node), std::string(step.kernel->name()), timer.us(i, i + 1)});
  }
  return times;
}

void DeviceBucketProgram::prepare() const {
  const device::DeviceScope on({slots_->context().options.device});
  const auto empty = [](const PackedBatchMemory& to) { to.cu_seqlens[0] = 0; };
  for (std::size_t i = 0; i < slots_->slots(); ++i) try {
      const DeviceCall call(*this, slots_->take_modestly(layout_.bytes, layout_.pinned_bytes));
      for (int time = 0; time < 2; ++time) {
        enqueue_call(call.slot(), {}, false, empty);
        call.slot().stream.wait();
      }
    } catch (const Error& error) {
      if (i == 0 || error.code() != Code::exhausted) throw;
    }
}

}  // namespace

std::shared_ptr<StreamSlotPool> make_cuda_slots(std::shared_ptr<cuda::Context> context,
                                                std::size_t slots) {
  return std::make_shared<StreamSlotPool>(std::move(context), slots);
}

std::size_t free_slot_bytes(const StreamSlotPool& slots) { return slots.free_bytes(); }
std::size_t trim_slots(StreamSlotPool& slots) noexcept { return slots.trim(); }

std::shared_ptr<const BucketProgram> make_bucket_program(
    BucketGraph graph, std::shared_ptr<StreamSlotPool> slots,
    const std::shared_ptr<cpu::Context>& host) {
  return std::make_shared<DeviceBucketProgram>(std::move(graph), std::move(slots), host);
}

}  // namespace sluice::engine

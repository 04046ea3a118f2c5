#include "engine/exec/cuda/context/execution_slot.h"

#include <cstring>

#include "base/error.h"

namespace sluice::engine::cuda {
namespace {

constexpr unsigned kNoError = ~0u;

std::size_t all_of(const std::vector<std::size_t>& sizes) {
  std::size_t sum = 0;
  for (const std::size_t bytes : sizes) sum += memory::round_up(bytes, memory::kAlignment);
  return sum;
}

std::vector<void*> addresses(void* base, const std::vector<std::size_t>& sizes) {
  std::vector<void*> made;
  auto* at = static_cast<std::byte*>(base);
  for (const std::size_t bytes : sizes) {
    made.push_back(at);
    at += memory::round_up(bytes, memory::kAlignment);
  }
  return made;
}

}  // namespace

std::size_t SlotSize::pinned() const {
  return all_of(inputs) + all_of(outputs) + memory::kAlignment + host;
}

ExecutionSlot::ExecutionSlot(const Context& context, const SlotSize& size)
    : stream({context.options.device}),
      arena(context.allocate(size.arena)),
      input_bytes(all_of(size.inputs)),
      output_bytes(all_of(size.outputs)),
      context_(context),
      arena_bytes_(size.arena),
      io_(context.allocate(input_bytes + output_bytes + memory::kAlignment)),
      pinned_accounting_(DType::u8, Shape{static_cast<std::int64_t>(size.pinned())}) {
  const device::DeviceScope on({context.options.device});
  pinned_ = device::pinned_buffer(input_bytes + output_bytes + memory::kAlignment);
  if (size.host > 0) host = device::pinned_buffer(size.host);
  const auto layout = [&](void* base) {
    return IoAddresses{addresses(base, size.inputs),
                       addresses(static_cast<std::byte*>(base) + input_bytes, size.outputs)};
  };
  device_io = layout(io_.get());
  host_io = layout(pinned_.get());
  clear_error_flag();
}

ExecutionSlot::~ExecutionSlot() { context_.notify_stream_destroy(stream.get()); }

void ExecutionSlot::copy_in() {
  if (input_bytes > 0)
    device::check(cudaMemcpyAsync(io_.get(), pinned_.get(), input_bytes, cudaMemcpyHostToDevice,
                                  stream.get()));
}

void ExecutionSlot::copy_out() {
  device::check(cudaMemcpyAsync(static_cast<std::byte*>(pinned_.get()) + input_bytes,
                                static_cast<std::byte*>(io_.get()) + input_bytes,
                                output_bytes + sizeof(unsigned), cudaMemcpyDeviceToHost,
                                stream.get()));
}

unsigned* ExecutionSlot::error_flag() const noexcept {
  return reinterpret_cast<unsigned*>(static_cast<std::byte*>(io_.get()) + input_bytes +
                                     output_bytes);
}

void ExecutionSlot::copy_error_flag() {
  device::check(cudaMemcpyAsync(static_cast<std::byte*>(pinned_.get()) + input_bytes + output_bytes,
                                error_flag(), sizeof(unsigned), cudaMemcpyDeviceToHost,
                                stream.get()));
}

void ExecutionSlot::clear_error_flag() {
  device::check(cudaMemsetAsync(error_flag(), 0xff, sizeof(unsigned), stream.get()));
}

std::optional<unsigned> ExecutionSlot::take_error() {
  unsigned first = kNoError;
  std::memcpy(&first, static_cast<std::byte*>(pinned_.get()) + input_bytes + output_bytes,
              sizeof first);
  if (first == kNoError) return std::nullopt;
  clear_error_flag();
  return first;
}

std::unique_ptr<ExecutionSlot> SlotPool::take() {
  for (;;) {
    {
      const Lock lock(mutex_);
      while (free_.empty() && made_ >= max_slots_) returned_.wait(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<ExecutionSlot> slot = std::move(free_.back());
        free_.pop_back();
        return slot;
      }
      free_.reserve(static_cast<std::size_t>(++made_));
    }
    if (std::unique_ptr<ExecutionSlot> slot = make()) return slot;
  }
}

std::unique_ptr<ExecutionSlot> SlotPool::make() try {
  return make_();
} catch (const std::exception& failure) {
  const auto* const error = dynamic_cast<const Error*>(&failure);
  const Lock lock(mutex_);
  --made_;
  returned_.notify_one();
  if (error == nullptr || error->code() != Code::exhausted || made_ == 0) throw;
  max_slots_ = made_;
  return nullptr;
}

std::size_t SlotPool::trim() noexcept {
  std::vector<std::unique_ptr<ExecutionSlot>> ended;  // destroyed after the lock is released
  std::size_t bytes = 0;
  const Lock lock(mutex_);
  for (const auto& slot : free_) bytes += slot->bytes();
  made_ -= static_cast<int>(free_.size());
  max_slots_ = configured_max_;
  free_.swap(ended);
  free_.reserve(static_cast<std::size_t>(made_));
  returned_.notify_all();
  return bytes;
}

void SlotPool::put_back(std::unique_ptr<ExecutionSlot> slot) noexcept {
  const Lock lock(mutex_);
  if (slot)
    free_.push_back(std::move(slot));
  else
    --made_;
  returned_.notify_one();
}

}  // namespace sluice::engine::cuda

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

std::size_t LaneSize::pinned() const {
  return all_of(inputs) + all_of(outputs) + memory::kAlignment + host;
}

Lane::Lane(const Context& context, const LaneSize& size)
    : stream({context.options.device}),
      arena(context.allocate(size.arena)),
      input_bytes(all_of(size.inputs)),
      output_bytes(all_of(size.outputs)),
      context_(context),
      arena_bytes_(size.arena),
      ends_(context.allocate(input_bytes + output_bytes + memory::kAlignment)),
      room_(DType::u8, Shape{static_cast<std::int64_t>(size.pinned())}) {
  const device::DeviceScope on({context.options.device});
  pinned_ = device::pinned_buffer(input_bytes + output_bytes + memory::kAlignment);
  if (size.host > 0) host = device::pinned_buffer(size.host);
  const auto places = [&](void* base) {
    return Ends{addresses(base, size.inputs),
                addresses(static_cast<std::byte*>(base) + input_bytes, size.outputs)};
  };
  own = places(ends_.get());
  mirror = places(pinned_.get());
  clear_error_flag();
}

Lane::~Lane() { context_.end_of_stream(stream.get()); }

void Lane::copy_in() {
  if (input_bytes > 0)
    device::check(cudaMemcpyAsync(ends_.get(), pinned_.get(), input_bytes, cudaMemcpyHostToDevice,
                                  stream.get()));
}

void Lane::copy_out() {
  device::check(cudaMemcpyAsync(static_cast<std::byte*>(pinned_.get()) + input_bytes,
                                static_cast<std::byte*>(ends_.get()) + input_bytes,
                                output_bytes + sizeof(unsigned), cudaMemcpyDeviceToHost,
                                stream.get()));
}

unsigned* Lane::error_flag() const noexcept {
  return reinterpret_cast<unsigned*>(static_cast<std::byte*>(ends_.get()) + input_bytes +
                                     output_bytes);
}

void Lane::copy_error_flag() {
  device::check(cudaMemcpyAsync(static_cast<std::byte*>(pinned_.get()) + input_bytes + output_bytes,
                                error_flag(), sizeof(unsigned), cudaMemcpyDeviceToHost,
                                stream.get()));
}

void Lane::clear_error_flag() {
  device::check(cudaMemsetAsync(error_flag(), 0xff, sizeof(unsigned), stream.get()));
}

std::optional<unsigned> Lane::take_error() {
  unsigned first = kNoError;
  std::memcpy(&first, static_cast<std::byte*>(pinned_.get()) + input_bytes + output_bytes,
              sizeof first);
  if (first == kNoError) return std::nullopt;
  clear_error_flag();
  return first;
}

std::unique_ptr<Lane> Lanes::take() {
  for (;;) {
    {
      const Lock lock(mutex_);
      while (free_.empty() && made_ >= most_) returned_.wait(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<Lane> lane = std::move(free_.back());
        free_.pop_back();
        return lane;
      }
      free_.reserve(static_cast<std::size_t>(++made_));
    }
    if (std::unique_ptr<Lane> lane = make()) return lane;
  }
}

std::unique_ptr<Lane> Lanes::make() try { return make_(); } catch (const std::exception& failure) {
  const auto* const error = dynamic_cast<const Error*>(&failure);
  const Lock lock(mutex_);
  --made_;
  returned_.notify_one();
  if (error == nullptr || error->code() != Code::exhausted || made_ == 0) throw;
  most_ = made_;
  return nullptr;
}

std::size_t Lanes::trim() noexcept {
  std::vector<std::unique_ptr<Lane>> ended;  // after the lock
  std::size_t bytes = 0;
  const Lock lock(mutex_);
  for (const auto& lane : free_) bytes += lane->bytes();
  made_ -= static_cast<int>(free_.size());
  most_ = all_;
  free_.swap(ended);
  free_.reserve(static_cast<std::size_t>(made_));
  returned_.notify_all();
  return bytes;
}

void Lanes::put_back(std::unique_ptr<Lane> lane) noexcept {
  const Lock lock(mutex_);
  if (lane)
    free_.push_back(std::move(lane));
  else
    --made_;
  returned_.notify_one();
}

}  // namespace sluice::engine::cuda

#include "engine/cuda/lane.h"

#include "base/error.h"

namespace sluice::engine::cuda {
namespace {

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

Lane::Lane(const Context& context, const LaneSize& size)
    : stream({context.options.device}),
      arena(context.allocate(size.arena)),
      input_bytes(all_of(size.inputs)),
      output_bytes(all_of(size.outputs)),
      arena_bytes_(size.arena),
      ends_(context.allocate(input_bytes + output_bytes)) {
  const device::DeviceScope on({context.options.device});
  pinned_ = device::pinned_buffer(std::max<std::size_t>(input_bytes + output_bytes, 1));
  if (size.host > 0) host = device::pinned_buffer(size.host);
  const auto places = [&](void* base) {
    return Ends{addresses(base, size.inputs),
                addresses(static_cast<std::byte*>(base) + input_bytes, size.outputs)};
  };
  own = places(ends_.get());
  mirror = places(pinned_.get());
}

void Lane::copy_in() {
  if (input_bytes > 0)
    device::check(cudaMemcpyAsync(ends_.get(), pinned_.get(), input_bytes, cudaMemcpyHostToDevice,
                                  stream.get()));
}

void Lane::copy_out() {
  if (output_bytes > 0)
    device::check(cudaMemcpyAsync(static_cast<std::byte*>(pinned_.get()) + input_bytes,
                                  static_cast<std::byte*>(ends_.get()) + input_bytes, output_bytes,
                                  cudaMemcpyDeviceToHost, stream.get()));
}

std::unique_ptr<Lane> Lanes::take() {
  const Lock lock(mutex_);
  for (;;) {
    if (!free_.empty()) {
      std::unique_ptr<Lane> lane = std::move(free_.back());
      free_.pop_back();
      return lane;
    }
    if (made_ < most_) try {
        std::unique_ptr<Lane> lane = make_();
        free_.reserve(static_cast<std::size_t>(++made_));
        return lane;
      } catch (const Error& error) {
        if (error.code() != Code::exhausted || made_ == 0) throw;
        most_ = made_;  // there is no memory for another
      }
    returned_.wait(mutex_);
  }
}

std::size_t Lanes::trim() noexcept {
  const Lock lock(mutex_);
  std::size_t bytes = 0;
  for (const auto& lane : free_) bytes += lane->bytes();
  made_ -= static_cast<int>(free_.size());
  most_ = all_;
  free_.clear();
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

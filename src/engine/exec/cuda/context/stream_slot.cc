#include "engine/exec/cuda/context/stream_slot.h"

#include <chrono>
#include <utility>

#include "base/cancellation.h"
#include "base/error.h"

namespace sluice::engine::cuda {

Lane::Lane(const Context& context, std::size_t number)
    : index(number), stream({context.options.device}), context_(context) {}

Lane::~Lane() { context_.notify_stream_destroy(stream.get()); }

void Lane::reserve(std::size_t bytes, std::size_t pinned_bytes) {
  if (bytes > bytes_) grow(bytes);
  if (pinned_bytes > pinned_bytes_) {
    const device::DeviceScope on({context_.options.device});
    device::PinnedBuffer made = device::pinned_buffer(pinned_bytes);
    ++generation_;
    pinned_ = std::move(made);
    pinned_bytes_ = pinned_bytes;
  }
}

// Beside the old memory if there is room for both, else in its place.
void Lane::grow(std::size_t bytes) {
  const auto set = [&](Memory made, std::size_t size) {
    ++generation_;
    memory_ = std::move(made);
    bytes_ = size;
  };
  try {
    return set(context_.allocate(bytes), bytes);
  } catch (const Error& error) {
    if (error.code() != Code::exhausted || bytes_ == 0) throw;
  }
  const std::size_t before = trim();
  try {
    set(context_.allocate(bytes), bytes);
  } catch (const Error& error) {
    if (error.code() == Code::exhausted) set(context_.allocate(before), before);
    throw;
  }
}

std::size_t Lane::trim() noexcept {
  ++generation_;
  memory_.reset();
  return std::exchange(bytes_, 0);
}

LanePool::LanePool(std::shared_ptr<Context> context, std::size_t lanes)
    : context_(std::move(context)) {
  for (std::size_t i = 0; i < lanes; ++i) lanes_.push_back(std::make_unique<Lane>(*context_, i));
  for (const auto& lane : lanes_) free_.push_back(lane.get());
}

LanePool::Guard::~Guard() {
  if (lane_ == nullptr) return;
  (void)cudaStreamSynchronize(lane_->stream.get());  // an error shows in the next call
  pool_->put_back(lane_);
}

Lane* LanePool::pop() {
  Lane* const lane = free_.front();
  free_.pop_front();
  return lane;
}

LanePool::Guard LanePool::wait_for_one() {
  constexpr std::chrono::milliseconds kLook(20);  // for a cancellation
  const Lock lock(mutex_);
  const std::uint64_t own = next_++;
  waiting_.push_back(own);
  while (free_.empty() || waiting_.front() != own) {
    returned_.wait_for(mutex_, kLook);
    if (!is_cancelled()) continue;
    std::erase(waiting_, own);
    returned_.notify_all();
    throw_if_cancelled();
  }
  waiting_.pop_front();
  returned_.notify_all();  // there may be a lane for the next one, too
  return {*this, pop()};
}

LanePool::Guard LanePool::take(std::size_t bytes, std::size_t pinned_bytes) {
  Guard guard = wait_for_one();
  reserve(guard, bytes, pinned_bytes);
  return guard;
}

LanePool::Guard LanePool::take_modestly(std::size_t bytes, std::size_t pinned_bytes) {
  Guard guard = wait_for_one();
  guard->reserve(bytes, pinned_bytes);
  return guard;
}

std::optional<LanePool::Guard> LanePool::try_take(std::size_t bytes, std::size_t pinned_bytes) {
  Lane* lane = nullptr;
  {
    const Lock lock(mutex_);
    if (free_.empty() || !waiting_.empty()) return std::nullopt;
    lane = pop();
  }
  Guard guard(*this, lane);
  reserve(guard, bytes, pinned_bytes);
  return guard;
}

void LanePool::reserve(const Guard& guard, std::size_t bytes, std::size_t pinned_bytes) {
  try {
    guard->reserve(bytes, pinned_bytes);
  } catch (const Error& error) {
    if (error.code() != Code::exhausted || trim() == 0) throw;
    guard->reserve(bytes, pinned_bytes);
  }
}

void LanePool::put_back(Lane* lane) noexcept {
  const Lock lock(mutex_);
  free_.push_back(lane);
  returned_.notify_all();
}

std::size_t LanePool::free_bytes() const {
  const Lock lock(mutex_);
  std::size_t bytes = 0;
  for (const Lane* lane : free_) bytes += lane->bytes();
  return bytes;
}

std::size_t LanePool::trim() noexcept {
  const Lock lock(mutex_);
  std::size_t bytes = 0;
  for (Lane* lane : free_) bytes += lane->trim();
  return bytes;
}

}  // namespace sluice::engine::cuda

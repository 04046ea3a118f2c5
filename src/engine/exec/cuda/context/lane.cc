#include "engine/exec/cuda/context/lane.h"

#include <utility>

#include "base/error.h"

namespace sluice::engine::cuda {

Lane::Lane(const Context& context, std::size_t number)
    : index(number), stream({context.options.device}), context_(context) {}

Lane::~Lane() { context_.notify_stream_destroy(stream.get()); }

void Lane::reserve(std::size_t bytes, std::size_t pinned_bytes) {
  if (bytes > bytes_) {
    trim();
    memory_ = context_.allocate(bytes);
    bytes_ = bytes;
  }
  if (pinned_bytes > pinned_bytes_) {
    const device::DeviceScope on({context_.options.device});
    ++generation_;
    pinned_bytes_ = 0;
    pinned_.reset();
    pinned_ = device::pinned_buffer(pinned_bytes);
    pinned_bytes_ = pinned_bytes;
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

LanePool::Guard LanePool::take(std::size_t bytes, std::size_t pinned_bytes) {
  Lane* lane = nullptr;
  {
    const Lock lock(mutex_);
    while (free_.empty()) returned_.wait(mutex_);
    lane = free_.back();
    free_.pop_back();
  }
  return reserved(lane, bytes, pinned_bytes);
}

std::optional<LanePool::Guard> LanePool::try_take(std::size_t bytes, std::size_t pinned_bytes) {
  Lane* lane = nullptr;
  {
    const Lock lock(mutex_);
    if (free_.empty()) return std::nullopt;
    lane = free_.back();
    free_.pop_back();
  }
  return reserved(lane, bytes, pinned_bytes);
}

LanePool::Guard LanePool::reserved(Lane* lane, std::size_t bytes, std::size_t pinned_bytes) {
  Guard guard(*this, lane);
  try {
    lane->reserve(bytes, pinned_bytes);
  } catch (const Error& error) {
    if (error.code() != Code::exhausted || trim() == 0) throw;
    lane->reserve(bytes, pinned_bytes);
  }
  return guard;
}

void LanePool::put_back(Lane* lane) noexcept {
  const Lock lock(mutex_);
  free_.push_back(lane);
  returned_.notify_one();
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

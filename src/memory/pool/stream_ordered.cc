#include "memory/pool/stream_ordered.h"

#include <bit>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"

namespace sluice::memory {
namespace {

constexpr std::size_t kSizesPerDouble = 8;  // sizes per power of two
constexpr std::size_t kMaxRequestBytes = std::size_t{1} << 42;

}  // namespace

// 1 to 8 units are classes of their own; above, eighths of a power of two.
std::size_t StreamOrderedPool::class_of(std::size_t bytes) noexcept {
  const std::size_t units = bytes == 0 ? 1 : (bytes + kAlignment - 1) / kAlignment;
  if (units <= kSizesPerDouble) return units - 1;
  const auto top = static_cast<std::size_t>(std::bit_width(units - 1)) - 1;  // units > 2^top
  const std::size_t step = std::size_t{1} << (top - 3);
  return (top - 3) * kSizesPerDouble + (units + step - 1) / step - 1;
}

std::size_t StreamOrderedPool::class_bytes(std::size_t size_class) noexcept {
  if (size_class < kSizesPerDouble) return (size_class + 1) * kAlignment;
  const std::size_t row = size_class / kSizesPerDouble - 1;  // units lie above 2^(row + 3)
  return ((size_class - row * kSizesPerDouble + 1) << row) * kAlignment;
}

StreamOrderedPool::StreamOrderedPool(Allocator& upstream, Fences& fences)
    : upstream_(upstream), fences_(fences) {}

StreamOrderedPool::~StreamOrderedPool() {
  const Lock lock(mutex_);
  for (const auto& one : streams_) {
    try {
      settle(*one);
    } catch (const std::exception& e) {  // the device is gone, and its work with it
      log::warn("memory: a stream could not be waited for: {}", e.what());
      one->passed_epoch = one->epoch;
    }
    give_back(*one);
  }
}

StreamOrderedPool::Stream& StreamOrderedPool::stream(StreamId id) {
  for (std::size_t i = 0; i < streams_.size(); ++i)
    if (streams_[i]->id == id) return *streams_[i];
  streams_.push_back(std::make_unique<Stream>());
  streams_.back()->id = id;
  return *streams_.back();
}

void* StreamOrderedPool::take(Stream& from, std::size_t size_class, bool newest) {
  auto& freed = from.freed[size_class];
  void* const pointer = newest ? freed.back().pointer : freed.front().pointer;
  newest ? freed.pop_back() : static_cast<void>(freed.erase(freed.begin()));
  --from.blocks;
  --stats_.cached_blocks;
  stats_.cached_bytes -= class_bytes(size_class);
  return pointer;
}

void StreamOrderedPool::poll(Stream& one) {
  while (!one.points.empty() && fences_.passed(one.points.front().fence)) {
    one.passed_epoch = one.points.front().epoch;
    fences_.release(one.points.front().fence);
    one.points.pop_front();
  }
}

// A fence behind everything freed so far; blocks freed later are of the next epoch.
void StreamOrderedPool::mark(Stream& one) {
  one.points.push_back({fences_.record(one.id), one.epoch});
  ++one.epoch;
}

void StreamOrderedPool::settle(Stream& one) {
  if (one.blocks == 0 && one.points.empty()) return;
  mark(one);
  fences_.wait(one.points.back().fence);
  for (const Point& point : one.points) fences_.release(point.fence);
  one.passed_epoch = one.points.back().epoch;
  one.points.clear();
}

void* StreamOrderedPool::allocate(std::size_t bytes, StreamId stream_id) {
  if (bytes > kMaxRequestBytes)
    throw Error(Code::exhausted, "not enough memory for " + human_bytes(bytes));
  const std::size_t size_class = class_of(bytes);
  const Lock lock(mutex_);
  Stream& own = stream(stream_id);
  if (!own.freed[size_class].empty()) {
    ++stats_.same_stream;
    return take(own, size_class, true);
  }
  if (void* const pointer = take_passed(size_class)) return pointer;
  return take_fresh(size_class, stream_id);
}

void* StreamOrderedPool::take_passed(std::size_t size_class) {
  for (const auto& other : streams_) {
    const auto& freed = other->freed[size_class];
    if (freed.empty()) continue;
    if (freed.front().epoch > other->passed_epoch) poll(*other);
    if (freed.front().epoch <= other->passed_epoch) {
      ++stats_.passed;
      return take(*other, size_class, false);
    }
    if (other->points.empty()) mark(*other);  // so that it can have passed next time
  }
  return nullptr;
}

void* StreamOrderedPool::take_held(std::size_t size_class, StreamId for_stream) {
  for (const auto& other : streams_) {
    const auto& freed = other->freed[size_class];
    if (freed.empty()) continue;
    const std::uint64_t epoch = freed.front().epoch;
    if (other->points.empty() || other->points.back().epoch < epoch) mark(*other);
    for (const Point& point : other->points) {
      if (point.epoch < epoch) continue;
      fences_.hold(for_stream, point.fence);
      break;
    }
    ++stats_.held;
    return take(*other, size_class, false);
  }
  return nullptr;
}

void* StreamOrderedPool::take_fresh(std::size_t size_class, StreamId for_stream) {
  const std::size_t bytes = class_bytes(size_class);
  const auto attempt = [&]() -> void* {
    try {
      return upstream_.allocate(bytes);
    } catch (const Error& e) {
      if (e.code() != Code::exhausted) throw;
      return nullptr;
    }
  };
  void* pointer = attempt();
  if (pointer == nullptr)
    if (void* const other = take_held(size_class, for_stream)) return other;
  if (pointer == nullptr) {
    ++stats_.waited;
    for (const auto& one : streams_) {
      settle(*one);
      give_back(*one);
    }
    pointer = upstream_.allocate(bytes);
  }
  ++stats_.fresh;
  return pointer;
}

void StreamOrderedPool::deallocate(void* pointer, std::size_t bytes, StreamId stream_id) noexcept {
  const std::size_t size_class = class_of(bytes);
  const Lock lock(mutex_);
  Stream& own = stream(stream_id);
  own.freed[size_class].push_back({pointer, own.epoch});
  own.last_epoch = own.epoch;
  ++own.blocks;
  ++stats_.cached_blocks;
  stats_.cached_bytes += class_bytes(size_class);
}

std::size_t StreamOrderedPool::give_back(Stream& one) noexcept {
  std::size_t bytes = 0;
  for (std::size_t size_class = 0; one.blocks > 0 && size_class < kClasses; ++size_class) {
    auto& freed = one.freed[size_class];
    std::size_t n = 0;
    for (; n < freed.size() && freed[n].epoch <= one.passed_epoch; ++n)
      upstream_.deallocate(freed[n].pointer, class_bytes(size_class));
    freed.erase(freed.begin(), freed.begin() + static_cast<std::ptrdiff_t>(n));
    one.blocks -= n;
    stats_.cached_blocks -= n;
    stats_.cached_bytes -= n * class_bytes(size_class);
    bytes += n * class_bytes(size_class);
  }
  return bytes;
}

std::size_t StreamOrderedPool::trim() noexcept {
  const Lock lock(mutex_);
  std::size_t bytes = 0;
  for (const auto& one : streams_) {
    try {
      const std::uint64_t marked =
          one->points.empty() ? one->passed_epoch : one->points.back().epoch;
      if (one->blocks > 0 && one->last_epoch > marked) mark(*one);
      poll(*one);
    } catch (const std::exception& e) {
      log::warn("memory: a stream could not be queried: {}", e.what());
    }
    bytes += give_back(*one);
  }
  return bytes + upstream_.trim();
}

void StreamOrderedPool::forget(StreamId id) {
  const Lock lock(mutex_);
  for (auto at = streams_.begin(); at != streams_.end(); ++at) {
    if ((*at)->id != id) continue;
    settle(**at);
    give_back(**at);
    streams_.erase(at);
    return;
  }
}

StreamOrderedPool::Stats StreamOrderedPool::stats() const {
  const Lock lock(mutex_);
  return stats_;
}

}  // namespace sluice::memory

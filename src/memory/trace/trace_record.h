// An allocator that records the requests to its upstream allocator, for
// `sluice memory replay`:
//
//   RecordingAllocator recording(pool);
//   ...
//   TraceHeader header;
//   header.name = "mine";
//   save_trace("mine.trace", recording.finish(std::move(header)));
#pragma once

#include <filesystem>

#include "base/clock.h"
#include "base/mutex.h"
#include "memory/alloc/allocator.h"
#include "memory/trace/trace.h"

namespace sluice::memory {

// Safe to share when `upstream` is. Takes about 30 bytes per operation; past
// `max_events` it passes requests on and records no more (truncated() says so).
class RecordingAllocator final : public Allocator {
 public:
  explicit RecordingAllocator(Allocator& upstream, std::size_t max_events = 10'000'000);

  [[nodiscard]] void* allocate(std::size_t bytes) override;
  void deallocate(void* pointer, std::size_t bytes) noexcept override;
  std::size_t trim() noexcept override { return upstream_.trim(); }

  bool truncated() const;
  // Returns the recording and starts a new one, which does not know the blocks live now.
  Trace finish(TraceHeader header);

 private:
  std::uint64_t now_us() const;
  bool has_capacity() REQUIRES(mutex_);

  Allocator& upstream_;
  const Instant began_ = Steady::now();
  const std::size_t max_events_;
  mutable Mutex mutex_;
  TraceBuilder builder_ GUARDED_BY(mutex_);
  std::size_t events_ GUARDED_BY(mutex_) = 0;
  bool truncated_ GUARDED_BY(mutex_) = false;
};

// Whole files: a trace is there once it is complete. Throw not_found or unavailable, naming the
// file and why.
std::string read_file(const std::filesystem::path& path);
void save_trace(const std::filesystem::path& path, const Trace& trace);

}  // namespace sluice::memory

#include "memory/trace/trace_record.h"

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/file_to_read.h"
#include "base/new_file.h"

namespace sluice::memory {

namespace {

std::uint64_t number_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

[[noreturn]] void fail(Code code, const std::string& what, const std::filesystem::path& path) {
  throw Error(code, what + " " + path.string() + ": " + std::strerror(errno));
}

}  // namespace

RecordingAllocator::RecordingAllocator(Allocator& upstream, std::size_t max_events)
    : upstream_(upstream), max_events_(max_events) {}

std::uint64_t RecordingAllocator::now_us() const {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(Steady::now() - began_).count());
}

bool RecordingAllocator::has_capacity() {
  if (events_ < max_events_) return true;
  truncated_ = true;
  return false;
}

void* RecordingAllocator::allocate(std::size_t bytes) {
  void* const pointer = upstream_.allocate(bytes);
  try {
    const Lock lock(mutex_);
    if (has_capacity()) {
      builder_.allocated(now_us(), number_of(pointer), bytes);
      ++events_;
    }
  } catch (...) {  // the caller's block matters more than our notes
    const Lock lock(mutex_);
    truncated_ = true;
  }
  return pointer;
}

void RecordingAllocator::deallocate(void* pointer, std::size_t bytes) noexcept {
  try {  // before the block goes back: another thread may have it the next moment
    const Lock lock(mutex_);
    if (has_capacity()) {
      builder_.freed(now_us(), number_of(pointer));
      ++events_;
    }
  } catch (...) {
    const Lock lock(mutex_);
    truncated_ = true;
  }
  upstream_.deallocate(pointer, bytes);
}

bool RecordingAllocator::truncated() const {
  const Lock lock(mutex_);
  return truncated_;
}

Trace RecordingAllocator::finish(TraceHeader header) {
  const Lock lock(mutex_);
  auto trace = std::exchange(builder_, {});
  events_ = 0;
  truncated_ = false;
  return std::move(trace).finish(std::move(header));
}

std::string read_file(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path))
    throw Error(Code::invalid_argument, path.string() + " is a folder; name a file in it");
  std::optional<std::string> bytes = read_named_file(path);
  if (!bytes) fail(errno == ENOENT ? Code::not_found : Code::unavailable, "cannot read", path);
  return *std::move(bytes);
}

void save_trace(const std::filesystem::path& path, const Trace& trace) {
  NewFile file(path);
  file.write(encode(trace));
  file.keep();
}

}  // namespace sluice::memory

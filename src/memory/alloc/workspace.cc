#include "memory/alloc/workspace.h"

#include <algorithm>

namespace sluice::memory {

void* Workspace::take(std::size_t bytes) {
  if (bytes > std::numeric_limits<std::size_t>::max() / 2)
    throw Error(Code::exhausted, "a workspace cannot hold that much");
  const std::size_t size = std::max(round_up(bytes, kAlignment), kAlignment);
  if (current_ >= chunks_.size() || size > chunks_[current_].bytes() - next_) {
    // On to the next chunk that is large enough; a smaller one is passed over until a
    // mark ends.
    std::size_t chunk = next_ == 0 ? current_ : current_ + 1;
    while (chunk < chunks_.size() && chunks_[chunk].bytes() < size) ++chunk;
    if (chunk == chunks_.size()) chunks_.emplace_back(from_, std::max(size, chunk_));
    current_ = chunk;
    next_ = 0;
  }
  void* const block = static_cast<std::byte*>(chunks_[current_].data()) + next_;
  next_ += size;
  used_ += size;
  peak_ = std::max(peak_, used_);
  return block;
}

std::size_t Workspace::held() const noexcept {
  std::size_t sum = 0;
  for (const Buffer& chunk : chunks_) sum += chunk.bytes();
  return sum;
}

}  // namespace sluice::memory

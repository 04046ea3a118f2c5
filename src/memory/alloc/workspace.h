// Scratch memory that ends with its scope: blocks come one behind the other from large
// chunks and are never freed singly.
//
//   Workspace scratch(pools.get("workspace"));
//   for (auto& layer : layers) {
//     Workspace::Mark mark(scratch);           // what the loop takes ends with the round
//     auto sums = scratch.take<float>(rows);   // a span, uninitialised
//   }
//
// Not thread-safe: one per thread or request.
#pragma once

#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "memory/alloc/allocator.h"

namespace sluice::memory {

class Workspace {
 public:
  // `from` must outlive it. Chunks hold at least `chunk` bytes; nothing is taken yet.
  explicit Workspace(Allocator& from, std::size_t chunk = 1 << 20) : from_(from), chunk_(chunk) {}
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  // kAlignment-aligned, until the innermost mark or the workspace ends. Throws exhausted.
  void* take(std::size_t bytes);

  // Uninitialised. Memory of a GPU must not be touched by the host.
  template <class T>
  std::span<T> take(std::size_t count) {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T))
      throw Error(Code::exhausted, "a workspace cannot hold that many");
    return {static_cast<T*>(take(count * sizeof(T))), count};
  }

  std::size_t used() const noexcept { return used_; }  // by what was taken and has not ended
  std::size_t peak() const noexcept { return peak_; }
  std::size_t held() const noexcept;  // of chunks; they stay until the workspace ends

  // Frees what was taken since, at the end of its own scope. Marks nest.
  class Mark {
   public:
    explicit Mark(Workspace& workspace)
        : workspace_(workspace),
          chunk_(workspace.current_),
          next_(workspace.next_),
          used_(workspace.used_) {}
    ~Mark() {
      workspace_.current_ = chunk_;
      workspace_.next_ = next_;
      workspace_.used_ = used_;
    }
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;

   private:
    Workspace& workspace_;
    const std::size_t chunk_, next_, used_;
  };

 private:
  Allocator& from_;
  const std::size_t chunk_;
  std::vector<Buffer> chunks_;
  std::size_t current_ = 0;  // the chunk that is being filled; those behind it are unused
  std::size_t next_ = 0;     // free from here in it
  std::size_t used_ = 0, peak_ = 0;
};

}  // namespace sluice::memory

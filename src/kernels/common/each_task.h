// Runs equal tasks on all threads. A thread gets about the same part of the tasks of each layer, so
// that what it wrote for one layer is in its own cache for the next.
#pragma once

#include <atomic>
#include <vector>

#include "compute/workers.h"

namespace sluice::kernels::cpu {

// Calls body(task, slot) for each task below `tasks`. Calls that run at once have different slots,
// which are below workers.threads(). A slot begins with its own chunk of tasks, and then steals
// from other chunks.
template <class Body>
void each_task(compute::Workers& workers, std::size_t tasks, const Body& body) {
  struct alignas(64) Chunk {
    std::atomic<std::size_t> next{0};
    std::size_t end = 0;
  };
  const std::size_t slots = std::min(tasks, static_cast<std::size_t>(workers.threads()));
  if (slots <= 1) {
    for (std::size_t task = 0; task < tasks; ++task) body(task, std::size_t{0});
    return;
  }
  std::vector<Chunk> chunks(slots);
  for (std::size_t i = 0; i < slots; ++i) {
    chunks[i].next = tasks * i / slots;
    chunks[i].end = tasks * (i + 1) / slots;
  }
  workers.each(slots, 1, [&](std::size_t slot, std::size_t) {
    for (std::size_t i = 0; i < slots; ++i) {
      Chunk& chunk = chunks[(slot + i) % slots];
      for (std::size_t task;
           (task = chunk.next.fetch_add(1, std::memory_order_relaxed)) < chunk.end;)
        body(task, slot);
    }
  });
}

}  // namespace sluice::kernels::cpu

// Work in equal tasks, shared out so that a thread has about the same part of each layer: what it
// wrote for one is then in its own cache for the next.
#pragma once

#include <atomic>
#include <vector>

#include "compute/workers.h"

namespace sluice::kernels::cpu {

// Calls body(task, slot) for each task below `tasks`; no two that run at once have the same
// slot, which is below workers.threads(). Each slot begins with a stretch of its own, and goes
// on with what is left of others' when it is through.
template <class Body>
void each_task(compute::Workers& workers, std::size_t tasks, const Body& body) {
  struct alignas(64) Stretch {
    std::atomic<std::size_t> next{0};
    std::size_t end = 0;
  };
  const std::size_t slots = std::min(tasks, static_cast<std::size_t>(workers.threads()));
  if (slots <= 1) {
    for (std::size_t task = 0; task < tasks; ++task) body(task, std::size_t{0});
    return;
  }
  std::vector<Stretch> stretches(slots);
  for (std::size_t i = 0; i < slots; ++i) {
    stretches[i].next = tasks * i / slots;
    stretches[i].end = tasks * (i + 1) / slots;
  }
  workers.each(slots, 1, [&](std::size_t slot, std::size_t) {
    for (std::size_t i = 0; i < slots; ++i) {
      Stretch& of = stretches[(slot + i) % slots];
      for (std::size_t task; (task = of.next.fetch_add(1, std::memory_order_relaxed)) < of.end;)
        body(task, slot);
    }
  });
}

}  // namespace sluice::kernels::cpu

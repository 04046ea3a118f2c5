// Work in equal tasks where each thread needs memory of its own.
#pragma once

#include <atomic>

#include "compute/workers.h"

namespace sluice::engine::cpu {

// Calls body(task, slot) for each task below `tasks`; no two that run at once have the same
// slot, which is below workers.threads().
template <class Body>
void each_task(compute::Workers& workers, std::size_t tasks, const Body& body) {
  std::atomic<std::size_t> next{0};
  const auto threads = static_cast<std::size_t>(workers.threads());
  workers.each(std::min(tasks, threads), 1, [&](std::size_t slot, std::size_t) {
    for (std::size_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < tasks;)
      body(task, slot);
  });
}

}  // namespace sluice::engine::cpu

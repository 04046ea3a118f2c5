#include "watch/monitor/subscribers.h"

#include <utility>

namespace sluice::watch {

std::shared_ptr<void> Subscribers::add(Monitor::OnSnapshot on_snapshot, Monitor::OnEvent on_event) {
  auto one = std::make_shared<One>();
  one->on_snapshot = std::move(on_snapshot);
  one->on_event = std::move(on_event);
  {
    const std::lock_guard lock(mutex_);
    list_.push_back(one);
  }
  // The token keeps the entry alive and marks it over in the end.
  return {one.get(), [one](void*) {
            const std::lock_guard lock(one->mutex);
            one->over = true;
          }};
}

std::vector<std::shared_ptr<Subscribers::One>> Subscribers::all() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<One>> alive;
  std::erase_if(list_, [&](const auto& weak) {
    auto one = weak.lock();
    if (one) alive.push_back(std::move(one));
    return weak.expired();
  });
  return alive;
}

void Subscribers::publish(const std::shared_ptr<const Snapshot>& snapshot) {
  for (const auto& one : all()) {
    const std::lock_guard lock(one->mutex);
    if (!one->over && one->on_snapshot) one->on_snapshot(snapshot);
  }
}

void Subscribers::publish(const Event& event) {
  for (const auto& one : all()) {
    const std::lock_guard lock(one->mutex);
    if (!one->over && one->on_event) one->on_event(event);
  }
}

}  // namespace sluice::watch

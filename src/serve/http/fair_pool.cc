#include "serve/http/fair_pool.h"

#include <sys/resource.h>
#include <unistd.h>

namespace sluice::serve::http {

FairPool::FairPool(const Options& options) : options_(options) {
  for (std::size_t i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { run(); });
}

bool FairPool::has_room(Peer peer) {
  const Lock lock(mutex_);
  const auto own = waiting_.find(peer);
  return count_ < options_.most_waiting &&
         (own == waiting_.end() || own->second.size() < options_.most_of_one);
}

void FairPool::post(Peer peer, Work work) {
  const Lock lock(mutex_);
  if (!ending_) add(peer, std::move(work));
}

void FairPool::add(Peer peer, Work work) {
  auto& own = waiting_[peer];
  if (own.empty()) turns_.push_back(peer);
  own.push_back(std::move(work));
  ++count_;
  has_work_.notify_one();
}

bool FairPool::next(Work& work) {
  const Lock lock(mutex_);
  while (turns_.empty() && !ending_) has_work_.wait(mutex_);
  if (turns_.empty()) return false;
  const auto peer = turns_.front();
  turns_.pop_front();
  const auto own = waiting_.find(peer);
  work = std::move(own->second.front());
  own->second.pop_front();
  --count_;
  if (own->second.empty())
    waiting_.erase(own);
  else
    turns_.push_back(peer);
  return true;
}

void FairPool::run() {
  // Of this thread alone, on Linux. What cannot be had does no harm.
  if (options_.niceness != 0)
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), options_.niceness);
  for (Work work; next(work); work = {}) work();
}

void FairPool::join() {
  {
    const Lock lock(mutex_);
    ending_ = true;
    has_work_.notify_all();
  }
  threads_.clear();
}

}  // namespace sluice::serve::http

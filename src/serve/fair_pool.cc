#include "serve/fair_pool.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace sluice::serve {

namespace {

constexpr std::size_t kCrowdedDivisor = 16;  // of a client's limit, while the queue is nearly full

}  // namespace

FairPool::FairPool(const Options& options) : options_(options) {
  for (std::size_t i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { run(); });
}

bool FairPool::has_capacity(const std::string& client) {
  const Lock lock(mutex_);
  const auto found = clients_.find(client);
  const auto own = found == clients_.end() ? 0 : found->second.queued.size();
  const bool is_crowded = count_ >= options_.max_queued - options_.max_queued / 4;
  const auto limit = is_crowded ? options_.max_queued_per_client / kCrowdedDivisor
                                : options_.max_queued_per_client;
  return count_ < options_.max_queued && own < std::max<std::size_t>(limit, 1);
}

void FairPool::post(const std::string& client, Work work) {
  const Lock lock(mutex_);
  if (ending_) return;
  const auto own = clients_.try_emplace(client).first;
  if (own->second.queued.empty()) turns_.push_back(own);
  own->second.queued.push_back(std::move(work));
  ++count_;
  has_work_.notify_one();
}

bool FairPool::take(Work& work, Clients::iterator& client) {
  const auto turn = std::ranges::find_if(turns_, [this](Clients::iterator one) {
    return one->second.running < options_.max_running_per_client;
  });
  if (turn == turns_.end()) return false;
  client = *turn;
  turns_.erase(turn);
  Client& own = client->second;
  work = std::move(own.queued.front());
  own.queued.pop_front();
  --count_;
  ++own.running;
  if (!own.queued.empty()) turns_.push_back(client);
  return true;
}

bool FairPool::next(Work& work, Clients::iterator& client) {
  const Lock lock(mutex_);
  while (!take(work, client)) {
    if (ending_ && count_ == 0) return false;
    has_work_.wait(mutex_);
  }
  return true;
}

void FairPool::finish(Clients::iterator client) {
  const Lock lock(mutex_);
  Client& own = client->second;
  --own.running;
  // Another of this client's may run now, or the last thread that waits may end.
  if (!own.queued.empty() || ending_) has_work_.notify_all();
  if (own.running == 0 && own.queued.empty()) clients_.erase(client);
}

void FairPool::run() {
  // On Linux this sets the niceness of this thread only. A failure is ignored.
  if (options_.niceness != 0)
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), options_.niceness);
  Clients::iterator client;
  for (Work work; next(work, client); finish(client)) {
    work();
    work = {};  // what it holds ends before its turn does
  }
}

void FairPool::drop_queued() {
  std::vector<std::deque<Work>> dropped;  // declared before the lock: destroyed without it
  const Lock lock(mutex_);
  turns_.clear();
  count_ = 0;
  for (auto client = clients_.begin(); client != clients_.end();) {
    dropped.push_back(std::move(client->second.queued));
    client->second.queued.clear();
    client = client->second.running == 0 ? clients_.erase(client) : std::next(client);
  }
}

void FairPool::join() {
  {
    const Lock lock(mutex_);
    ending_ = true;
    has_work_.notify_all();
  }
  threads_.clear();
}

}  // namespace sluice::serve

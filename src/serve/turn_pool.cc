#include "serve/turn_pool.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"

namespace sluice::serve {

TurnPool::TurnPool(TurnPoolOptions options) : options_(options) {
  for (std::size_t i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { serve(); });
}

TurnPool::~TurnPool() {
  {
    const Lock lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void TurnPool::post(const std::string& owner, Task task) {
  {
    const Lock lock(mutex_);
    Owner& of = owners_[owner];
    if (waiting_ >= options_.most_waiting || of.waiting.size() >= options_.most_waiting * 3 / 4) {
      if (of.waiting.empty() && of.running == 0) owners_.erase(owner);
      throw Error(Code::exhausted, "too many calculations are waiting; ask again in a moment");
    }
    if (of.waiting.empty()) turns_.push_back(owner);
    of.waiting.push_back(std::move(task));
    ++waiting_;
  }
  wake_.notify_one();
}

TurnPool::Task TurnPool::take(std::string& owner) {
  auto turn = turns_.begin();
  while (turn != turns_.end() && owners_.at(*turn).running >= options_.most_each) ++turn;
  if (turn == turns_.end()) return {};
  owner = *turn;
  turns_.erase(turn);
  Owner& of = owners_.at(owner);
  Task task = std::move(of.waiting.front());
  of.waiting.pop_front();
  --waiting_;
  ++of.running;
  if (!of.waiting.empty()) turns_.push_back(owner);
  return task;
}

void TurnPool::finish(const std::string& owner) {
  {
    const Lock lock(mutex_);
    Owner& of = owners_.at(owner);
    if (--of.running == 0 && of.waiting.empty()) owners_.erase(owner);
  }
  wake_.notify_one();  // another of this owner's may run now
}

void TurnPool::serve() {
  if (options_.niceness != 0)
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), options_.niceness);
  for (;;) {
    std::string owner;
    Task task;
    {
      const Lock lock(mutex_);
      while (!ending_ && !(task = take(owner))) wake_.wait(mutex_);
      if (ending_) return;
    }
    task();
    task = nullptr;  // what it held ends before its turn does
    finish(owner);
  }
}

}  // namespace sluice::serve

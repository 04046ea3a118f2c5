// Market calculations of the server, on two thread pools: short and long ones by their estimated
// cost, so that long ones never delay a short one. Clients take turns. GPU work is done by a worker
// process.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/json_text.h"
#include "base/memory_budget.h"
#include "base/mutex.h"
#include "compute/compute.h"
#include "serve/fair_pool.h"

namespace sluice::serve {

struct MarketOptions {
  std::string program{};  // this executable, started again as the GPU worker; empty: CPU only
  std::string no_gpu = "GPUs are turned off";  // the reason that is reported then
  std::filesystem::path costs{};               // file of measured costs
  memory::MemoryConfig pools{};                // of the worker's memory
  // The maximum estimated cost of a request, in work units: about ten seconds on two cores. The
  // estimate can be wrong, so a request is ended after max_time in any case.
  double max_work = 1e10;
  Seconds max_time{30};
  // The limits of a short calculation: a quarter of a second, and a body that is parsed as fast.
  double quick_work = 2.5e8;
  std::size_t quick_body = 4 << 20;
  std::size_t max_text = 8 << 20;  // of an answer that is not written as it is sent
  FairPool::Options quick{.threads = 3,
                          .max_queued = 64,
                          .max_queued_per_client = 48,
                          .max_running_per_client = 2,
                          .niceness = 5};
  FairPool::Options slow{.threads = 3,
                         .max_queued = 32,
                         .max_queued_per_client = 24,
                         .max_running_per_client = 2,
                         .niceness = 10};
};

class MarketService {
 public:
  // JSON as text; a long answer is serialized while it is sent.
  struct Answer {
    std::string text{};
    std::optional<JsonText> rest{};
  };

  class Job {
   public:
    // The answer once it is there; nothing before. What a long one holds is charged to the job.
    // Throws what the calculation threw. Ends one that takes too long: to be called every second or
    // so.
    std::optional<Answer> take(Instant now);
    void cancel() noexcept { stop_.request_stop(); }  // nobody waits any more

   private:
    friend class MarketService;
    std::string client_, what_, request_;
    std::shared_ptr<MemoryBudget> memory_;  // of the client
    MemoryBudget::Charge held_;             // for the body and the work, then for the answer
    std::stop_source stop_;
    Seconds max_time_{};
    Mutex mutex_;
    std::optional<Instant> begun_ GUARDED_BY(mutex_);
    bool expired_ GUARDED_BY(mutex_) = false;
    std::optional<Answer> answer_ GUARDED_BY(mutex_);
    std::exception_ptr failed_ GUARDED_BY(mutex_);
  };

  // `veto`: why the GPU must not be used now, or "". `on_done` is called on a thread of the
  // service whenever a job has ended.
  MarketService(MarketOptions options, std::function<std::string()> veto,
                std::function<void()> on_done);
  ~MarketService();  // cancels what is under way; the rest is dropped

  // Begins no more and waits for what is under way; what still goes on after `limit` is
  // cancelled. False when that did not help in `limit` either: the GPU's worker is waited for.
  bool end(Seconds limit);

  // `client`: whose it is; each has a turn. `held` is what its body is charged, of `memory`; work
  // and answer are charged there, too. Throws exhausted when too many wait, and as Charge::hold.
  std::shared_ptr<Job> ask(std::string client, std::string what, std::string request,
                           std::shared_ptr<MemoryBudget> memory = nullptr,
                           MemoryBudget::Charge held = {});

  // Ends what nobody wants any more on a thread of the service: a large answer has millions of
  // parts, and freeing them takes a second. `job` is charged until then; the first cancels it.
  void discard(std::shared_ptr<Job> job);
  void discard(JsonText rest, std::shared_ptr<Job> job);

  struct Stats {
    compute::ComputeStats compute{};
    std::size_t waiting = 0;                      // or being calculated
    std::vector<memory::PoolStatistics> pools{};  // of the worker, while it lives
  };
  Stats stats() const;
  const memory::MemoryConfig& pools() const noexcept { return options_.pools; }  // as set

 private:
  class Counted;
  class UnderWay;

  void post(FairPool& pool, std::shared_ptr<Job> job);
  void work(const std::shared_ptr<Job>& job, double max_work);
  void work_later(const std::shared_ptr<Job>& job);
  Answer answer_of(Job& job, double max_work);
  void finish(Job& job, Answer answer);
  void fail(Job& job, std::exception_ptr why);
  void cancel_all();
  bool idle_within(Seconds limit) const;
  compute::Compute& compute();

  const MarketOptions options_;
  const std::function<std::string()> veto_;
  const std::function<void()> on_done_;
  std::atomic<std::size_t> waiting_{0};
  std::atomic<bool> ending_{false};
  mutable Mutex mutex_;
  std::unique_ptr<compute::Compute> compute_ GUARDED_BY(mutex_);  // made by the first job
  std::set<Job*> under_way_ GUARDED_BY(mutex_);
  FairPool slow_, quick_;  // the last ends first: it posts to the other
};

}  // namespace sluice::serve

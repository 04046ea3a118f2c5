// Market calculations of the server: a queue with threads of its own, so that a long one
// keeps nobody waiting who asks for something else. GPU work is done by a worker process.
#pragma once

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/mutex.h"
#include "compute/compute.h"

namespace sluice::serve {

struct MarketOptions {
  std::string program{};  // this one: started again as the GPU's worker; empty: CPU only
  std::string no_gpu = "GPUs are turned off";  // the reason that is given then
  std::filesystem::path costs{};               // file of measured costs
  memory::MemoryConfig pools{};                // of the worker's memory
  // Steps that one request may ask for: some ten seconds on two cores.
  double most_work = 1e10;
  std::size_t threads = 2, most_waiting = 64;
};

class MarketDesk {
 public:
  class Job {
   public:
    // The answer as JSON once it is there; nothing before. Throws what the calculation threw.
    std::optional<std::string> take();
    void cancel() noexcept { cancelled_ = true; }  // nobody waits any more

   private:
    friend class MarketDesk;
    std::string what_, request_;
    std::atomic<bool> cancelled_{false};
    Mutex mutex_;
    std::optional<std::string> answer_ GUARDED_BY(mutex_);
    std::optional<Error> failed_ GUARDED_BY(mutex_);
  };

  // `veto`: why the GPU must not be used now, or "". `on_done` is called on a thread of the
  // desk's whenever a job has ended.
  MarketDesk(MarketOptions options, std::function<std::string()> veto,
             std::function<void()> on_done);
  ~MarketDesk();  // waits for what is under way; the rest is dropped

  // Begins no more and waits for what is under way; false when that still goes on after
  // `limit`. A calculation cannot be interrupted: the destructor would wait to its end.
  bool end(Seconds limit);

  // Throws exhausted when too many wait.
  std::shared_ptr<Job> ask(std::string what, std::string request);

  struct Figures {
    compute::ComputeFigures compute{};
    std::size_t waiting = 0;                      // or being calculated
    std::vector<memory::PoolStatistics> pools{};  // of the worker, while it lives
  };
  Figures figures() const;
  const memory::MemoryConfig& pools() const noexcept { return options_.pools; }  // as set

 private:
  void work(Job& job);
  compute::Compute& compute();

  const MarketOptions options_;
  const std::function<std::string()> veto_;
  const std::function<void()> on_done_;
  std::atomic<std::size_t> waiting_{0};
  std::atomic<bool> ending_{false};
  mutable Mutex mutex_;
  std::unique_ptr<compute::Compute> compute_ GUARDED_BY(mutex_);  // made by the first job
  boost::asio::thread_pool pool_;
};

}  // namespace sluice::serve

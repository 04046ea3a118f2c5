// One thread of the sampler: queries one GPU, tier by tier.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "device/sampler/sampler_cost.h"
#include "device/sampler/sampler_probe.h"
#include "device/sampler/sampler_protocol.h"

namespace sluice::device {

// Writes the messages of all threads, each as a line. Thread-safe.
class MessageWriter {
 public:
  explicit MessageWriter(int fd) : fd_(fd) {}
  void send(const Message& message);  // does nothing once the other end is closed
  Instant last_sent() const noexcept { return Instant(Steady::duration(last_sent_)); }

 private:
  const int fd_;
  std::mutex mutex_;
  bool closed_ = false;
  std::atomic<Steady::rep> last_sent_{0};
};

// The current sampling intervals; shared by all threads.
struct ScaledIntervals {
  SamplingIntervals base;
  double scale = 1;  // above 1 when sampling costs more than its budget
};

double interval_of(Tier tier, const ScaledIntervals& intervals) noexcept;

// Decides when each tier is due. Pure.
class Schedule {
 public:
  // Returns the tiers due at `now`, which are then due again one interval later. Tiers that are
  // due within a few hundredths of a second are included: one wake-up for all.
  std::vector<Tier> due(Instant now, const ScaledIntervals& intervals);
  Instant next() const noexcept;
  void make_due(Tier tier, Instant now) noexcept { next_[static_cast<std::size_t>(tier)] = now; }

 private:
  std::array<Instant, std::size(kTiers)> next_{};  // the beginning of time: due at once
};

// Decides when a list of processes is read early: on a GPU that is followed, along with a
// sample of its memory. Early lists take at most ten times the budget of all sampling, however
// often the memory changes. Pure.
class EarlyList {
 public:
  // A new number asks for a list; nothing: the GPU is not followed.
  void follow(std::optional<std::uint64_t> number);
  bool is_due(std::optional<double> memory_used, Instant now) const;
  void listed(std::optional<double> memory_used);  // any list, early or not
  void took(Steady::duration how_long, double budget, Instant now);

 private:
  std::optional<std::uint64_t> number_;
  bool is_requested_ = false;
  std::optional<double> listed_used_;
  Instant rests_until_{};
};

// The time one thread spent on early process lists. Any thread may read.
class EarlyCost {
 public:
  void add(double cpu_s, double driver_s) noexcept;
  double cpu_s() const noexcept { return static_cast<double>(cpu_ns_) * 1e-9; }
  double driver_s() const noexcept { return static_cast<double>(driver_ns_) * 1e-9; }

 private:
  std::atomic<std::int64_t> cpu_ns_{0}, driver_ns_{0};
};

class Worker {
 public:
  // `out` and `listener` must outlive the worker. `described` is called with the GPU's
  // description at first and after each return, from the worker's thread; `lost` by
  // whoever noticed, and must not call back.
  struct Listener {
    virtual ~Listener() = default;
    virtual void described(Gpu gpu) = 0;
    virtual void lost() noexcept = 0;
    virtual ScaledIntervals intervals() const = 0;
  };
  Worker(std::string uuid, std::unique_ptr<Probe> probe, MessageWriter& out, Listener& listener);
  ~Worker();  // the thread must have finished(), or the process must end instead

  const std::string& uuid() const noexcept { return uuid_; }
  const CallWatch& calls() const noexcept { return calls_; }

  const EarlyCost& early() const noexcept { return early_cost_; }

  void sample_now();                                 // all but the process list, now
  void follow(std::optional<std::uint64_t> number);  // see EarlyList
  void lose(std::string why);                        // the driver no longer lists it
  void revive(std::unique_ptr<Probe> probe);         // it does again
  bool is_gone() const;
  Instant last_round() const noexcept { return Instant(Steady::duration(last_round_)); }  // its end
  void stop();
  bool finished() const noexcept { return finished_; }

 private:
  void run();
  bool describe();
  void round(const std::vector<Tier>& tiers, double budget);
  void will_list(const Sample& sample);
  Outcome list_early(Probe& probe, Sample& sample, double budget);
  void report(const Outcome& outcome, Instant at);
  bool wait();  // until something is due; false to end

  const std::string uuid_;
  MessageWriter& out_;
  Listener& listener_;
  CallWatch calls_;
  EarlyCost early_cost_;

  mutable std::mutex mutex_;  // for what follows, up to the thread
  std::condition_variable wake_;
  std::shared_ptr<Probe> probe_;  // shared: replaced while a call of the old one hangs
  Schedule schedule_;
  EarlyList early_;
  bool stop_ = false, gone_ = false, described_ = false;
  std::atomic<bool> finished_{false};
  std::atomic<Steady::rep> last_round_{Steady::now().time_since_epoch().count()};
  std::thread thread_;
};

}  // namespace sluice::device

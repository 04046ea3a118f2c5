// One thread of the sampler: asks one GPU, tier by tier, for ever.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "device/sampler_cost.h"
#include "device/sampler_probe.h"
#include "device/sampler_protocol.h"

namespace sluice::device {

// Where all threads write to; whole lines, in turn. Thread-safe.
class Outbox {
 public:
  explicit Outbox(int fd) : fd_(fd) {}
  void send(const Message& message);  // does nothing once the other end is closed
  Instant last_sent() const noexcept { return Instant(Steady::duration(last_sent_)); }

 private:
  const int fd_;
  std::mutex mutex_;
  bool closed_ = false;
  std::atomic<Steady::rep> last_sent_{0};
};

// How often to ask just now; shared by all threads.
struct Tempo {
  Pace pace;
  double stretch = 1;
};

double interval_of(Tier tier, const Tempo& tempo) noexcept;

// When each tier is due. Pure.
class Schedule {
 public:
  // The tiers due at `now`, which are then due again one interval later. What is
  // due within a few hundredths of a second is taken along: one wake-up for all.
  std::vector<Tier> due(Instant now, const Tempo& tempo);
  Instant next() const noexcept;
  void hurry(Tier tier, Instant now) noexcept { next_[static_cast<std::size_t>(tier)] = now; }

 private:
  std::array<Instant, std::size(kTiers)> next_{};  // the beginning of time: due at once
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
    virtual Tempo tempo() const = 0;
  };
  Worker(std::string uuid, std::unique_ptr<Probe> probe, Outbox& out, Listener& listener);
  ~Worker();  // the thread must have finished(), or the process must end instead

  const std::string& uuid() const noexcept { return uuid_; }
  const CallWatch& calls() const noexcept { return calls_; }

  void hurry();                               // all but the process list, now
  void lose(std::string why);                 // the driver no longer lists it
  void revive(std::unique_ptr<Probe> probe);  // it does again
  bool is_gone() const;
  Instant last_round() const noexcept { return Instant(Steady::duration(last_round_)); }  // its end
  void stop();
  bool finished() const noexcept { return finished_; }

 private:
  void run();
  bool describe();
  void round(const std::vector<Tier>& tiers, double budget);
  void report(const Outcome& outcome, Instant at);
  bool wait();  // until something is due; false to end

  const std::string uuid_;
  Outbox& out_;
  Listener& listener_;
  CallWatch calls_;

  mutable std::mutex mutex_;  // for what follows, up to the thread
  std::condition_variable wake_;
  std::shared_ptr<Probe> probe_;  // shared: replaced while a call of the old one hangs
  Schedule schedule_;
  bool stop_ = false, gone_ = false, described_ = false;
  std::atomic<bool> finished_{false};
  std::atomic<Steady::rep> last_round_{Steady::now().time_since_epoch().count()};
  std::thread thread_;
};

}  // namespace sluice::device

#include "device/sampler/sampler.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "base/error.h"
#include "base/line_buffer.h"
#include "base/log.h"
#include "device/sampler/sampler_search.h"

namespace sluice::device {

namespace {

using namespace std::chrono_literals;

// Each wake-up costs tens of microseconds, so no thread wakes without need.
constexpr auto kQuiet = 1200ms;  // maximum time without a message; samples come every second
constexpr auto kStuck = 150ms;   // a call that takes longer is reported
constexpr auto kCost = 5s;       // between two words about the cost
constexpr auto kLook = 10s;
constexpr auto kLookForTheGone = 500ms;
constexpr int kQuickLooks = 60;
constexpr std::uint32_t kEventWait_ms = 5000;      // events end it at once; new GPUs do not
constexpr std::uint32_t kShortEventWait_ms = 500;  // while one of them may come back
constexpr auto kGrace = 1500ms;                    // for calls to return in the end

double process_cpu_s() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

class Sampler {
 public:
  explicit Sampler(const SamplerOptions& options)
      : options_(options), out_(options.fd), search_(options, out_) {}

  void run(int signals);

 private:
  void search();
  void events();
  void watch_events(const Nvml& nvml, std::uint64_t generation);
  void heard(const nvml::EventData& event, const std::map<std::string, nvml::Device>& handles);
  bool listen(int signals);  // until it is time to look; false when it is time to end
  bool hear_orders();
  void look_after();
  Spent gather(Beat& beat) const;  // calls and what hangs; the seconds spent
  void measure(Beat& beat, const Spent& spent);
  bool any_late(Instant now) const;
  void sleep(Steady::duration how_long);
  bool wind_down();

  const SamplerOptions options_;
  MessageWriter out_;
  Search search_;
  CallWatch event_calls_;
  CostMeter cost_;
  LineBuffer in_;
  Instant measured_{};           // when the cost was last reported
  bool reported_stuck_ = false;  // by the last beat
  std::atomic<bool> stop_{false}, opened_{false}, search_done_{false}, events_done_{false};
  std::atomic<bool> awaiting_{false};  // the event thread is in a wait that nothing can end
  std::mutex sleep_mutex_;
  std::condition_variable woken_;
};

void Sampler::sleep(Steady::duration how_long) {
  std::unique_lock lock(sleep_mutex_);
  woken_.wait_for(lock, how_long, [this] { return stop_.load(); });
}

void Sampler::search() {
  if (search_.open()) {
    opened_ = true;
    int quick = 0;  // looks in a row for GPUs that are missing
    while (!stop_) {
      quick = search_.any_missing() || !search_.has_sent_all() ? quick + 1 : 0;
      const bool soon = quick > 0 && quick <= kQuickLooks;
      sleep(soon ? Steady::duration(kLookForTheGone) : Steady::duration(kLook));
      if (!stop_) search_.look();
    }
  } else {
    out_.send(search_.nothing());
    stop_ = true;
  }
  search_done_ = true;
}

void Sampler::events() {
  while (!stop_) {
    if (const auto nvml = search_.nvml(); nvml && opened_) {
      watch_events(*nvml, search_.generation());
    }
    sleep(200ms);
  }
  events_done_ = true;
}

// Waits on one event set until a GPU appears or disappears: a set cannot remove a GPU, and a lost
// GPU may fail the wait for all others.
void Sampler::watch_events(const Nvml& nvml, std::uint64_t generation) {
  constexpr std::uint64_t kWanted = nvml::event::kXid | nvml::event::kDoubleBitEcc |
                                    nvml::event::kGpuUnavailable | nvml::event::kRecoveryAction;
  const auto handles = search_.handles();
  bool any = false;
  Answer<EventSet> set;
  {
    const CallScope scope(event_calls_);
    set = nvml.event_set();
    if (!set) return sleep(kLook);
    for (const auto& [uuid, device] : handles)
      if (set.value.add(device, kWanted)) any = true;
  }
  while (!stop_ && generation == search_.generation()) {
    const auto wait = search_.any_missing() ? kShortEventWait_ms : kEventWait_ms;
    if (!any) {
      sleep(std::chrono::milliseconds(wait));
      continue;
    }
    awaiting_ = true;
    const auto event = set.value.wait(wait);
    awaiting_ = false;
    if (event) {
      heard(event.value, handles);
    } else if (event.code != nvml::Return::timeout) {
      for (const auto& worker : search_.workers())
        worker->sample_now();  // one of them is in trouble
      sleep(1s);
    }
  }
}

void Sampler::heard(const nvml::EventData& event,
                    const std::map<std::string, nvml::Device>& handles) {
  for (const auto& [uuid, device] : handles) {
    if (device != event.device) continue;
    if (event.type == nvml::event::kXid)
      out_.send(XidSeen{
          uuid,
          {static_cast<unsigned>(event.data), Steady::now(), std::chrono::system_clock::now()}});
    for (const auto& worker : search_.workers())
      if (worker->uuid() == uuid) worker->sample_now();
  }
}

bool Sampler::hear_orders() {
  char bytes[4096];
  const auto n = recv(options_.fd, bytes, sizeof bytes, MSG_DONTWAIT);
  if (n == 0) return false;
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  in_.add({bytes, static_cast<std::size_t>(n)});
  while (const auto line = in_.next()) {
    const auto order = decode_order(*line);
    if (const auto* intervals = std::get_if<SamplingIntervals>(&order))
      search_.set_intervals(*intervals);
    if (const auto* follow = std::get_if<Follow>(&order)) search_.follow(*follow);
  }
  return true;
}

// Wakes a little after each sample of a sampler that is well, which then has
// nothing to add to it.
bool Sampler::listen(int signals) {
  const auto until = out_.last_sent() + kQuiet;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Steady::now()).count();
    if (left <= 0) return true;
    pollfd watched[] = {{options_.fd, POLLIN, 0}, {signals, POLLIN, 0}};
    if (poll(watched, 2, static_cast<int>(left)) <= 0) continue;
    if (watched[1].revents != 0 || !hear_orders()) return false;
  }
}

Spent Sampler::gather(Beat& beat) const {
  Spent spent;
  const auto add = [&](const std::string& who, const CallWatch& calls) {
    beat.cost.calls += calls.calls();
    beat.cost.errors += calls.errors();
    spent.driver_s += calls.driver_s();
    const auto call = calls.now();
    if (call && beat.at - call->since >= kStuck)
      beat.busy.push_back({who, call->function, call->since});
  };
  add("search", search_.calls());
  add("events", event_calls_);
  for (const auto& worker : search_.workers()) {
    add(worker->uuid(), worker->calls());
    spent.early_cpu_s += worker->early().cpu_s();
    spent.early_driver_s += worker->early().driver_s();
  }
  return spent;
}

void Sampler::measure(Beat& beat, const Spent& gathered) {
  const auto intervals = search_.intervals();
  if (opened_ && beat.at - measured_ >= kCost) {
    measured_ = beat.at;
    const double window = std::max(5.0, interval_of(Tier::processes, intervals));
    auto spent = gathered;
    spent.cpu_s = process_cpu_s();
    cost_.add(beat.at, spent, intervals.base.budget, window);
    search_.set_interval_scale(cost_.interval_scale());
  }
  beat.cost.core_share = cost_.core_share();
  beat.cost.driver_share = cost_.driver_share();
  beat.cost.interval_scale = cost_.interval_scale();
}

// One that has not finished a round for so long that a sample is missing.
bool Sampler::any_late(Instant now) const {
  return std::ranges::any_of(search_.workers(), [&](const auto& worker) {
    return !worker->is_gone() && now - worker->last_round() >= kQuiet;
  });
}

// A sample shows that the sampler works. A beat reports what no sample shows: a call that does not
// return, its return, the absence of samples, and the cost.
void Sampler::look_after() {
  Beat beat;
  beat.at = Steady::now();
  const auto spent = gather(beat);
  const bool stuck = !beat.busy.empty();
  const bool quiet = beat.at - out_.last_sent() >= kQuiet || any_late(beat.at);
  if (!stuck && !reported_stuck_ && !quiet && beat.at - measured_ < kCost) return;
  measure(beat, spent);
  reported_stuck_ = stuck;
  out_.send(beat);
}

void Sampler::run(int signals) {
  std::thread searching([this] { search(); });
  std::thread hearing([this] { events(); });
  do look_after();
  while (!stop_ && listen(signals));
  {
    const std::lock_guard lock(sleep_mutex_);
    stop_ = true;
  }
  woken_.notify_all();
  // A thread that hangs in the driver can be neither joined nor ended, nor can one
  // that waits there for events.
  if (!wind_down() || awaiting_) {
    log::flush();
    std::_Exit(0);
  }
  searching.join();
  hearing.join();
}

bool Sampler::wind_down() {
  for (const auto& worker : search_.workers()) worker->stop();
  const auto until = Steady::now() + kGrace;
  const auto done = [this] {
    for (const auto& worker : search_.workers())
      if (!worker->finished()) return false;
    return search_done_ && (events_done_ || awaiting_);
  };
  while (!done() && Steady::now() < until) std::this_thread::sleep_for(5ms);
  return done();
}

}  // namespace

int run_sampler(const SamplerOptions& options) {
  // Ends with the thread that started us; the closed socket says the same.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  prctl(PR_SET_TIMERSLACK, 5'000'000UL);  // wake-ups of many threads fall together
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  const int fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) throw Error(Code::internal, "sampler: signalfd failed");
  {
    Sampler sampler(options);
    sampler.run(fd);
  }
  close(fd);
  return 0;
}

}  // namespace sluice::device

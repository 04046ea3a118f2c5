#include "watch/monitor/monitor.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/mutex.h"
#include "watch/alerts/alert_engine.h"
#include "watch/alerts/notify.h"
#include "watch/history/history.h"
#include "watch/monitor/observation.h"
#include "watch/monitor/subscribers.h"

namespace sluice::watch {

namespace {

constexpr int kLook_ms = 200;
constexpr double kPublish_s = 0.5;
constexpr const char* kAlertsKey = "alerts";

WallTime wall_now() { return std::chrono::system_clock::now(); }

std::int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Steady::now().time_since_epoch())
      .count();
}

std::string history_path(const Monitor::Options& o) {
  return o.config.history && !o.state_dir.empty() ? o.state_dir + "/history.db" : "";
}

}  // namespace

struct Monitor::Impl {
  explicit Impl(Options o);
  ~Impl();

  void restore_alerts();
  void begin_stop() noexcept;
  void run();
  void wait();
  void publish(Instant now);
  std::vector<Transition> evaluate(Snapshot& snapshot);
  void deliver(const std::vector<Transition>& transitions);
  void remember(const Snapshot& snapshot);
  void take_orders();
  void wake() const { eventfd_write(wake_fd, 1); }
  // Words of an alert may name a path, which can be any bytes.
  void save_alerts() REQUIRES(alerts_mutex) {
    history.keep(kAlertsKey, engine.saved().dump(-1, ' ', false, Json::error_handler_t::replace));
  }

  const Options options;
  const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  History history;
  Notifier notifier;
  Subscribers subscribers;
  std::optional<Observation> observation;  // of the thread only, which ends it
  std::uint64_t sequence = 0;
  Instant published{};

  mutable Mutex alerts_mutex;
  AlertEngine engine GUARDED_BY(alerts_mutex);

  mutable Mutex mutex;
  std::shared_ptr<const Snapshot> snapshot GUARDED_BY(mutex);
  device::Readings server GUARDED_BY(mutex);
  std::vector<OwnerMemory> owners GUARDED_BY(mutex);
  LeaseStore lease_store GUARDED_BY(mutex);
  std::optional<device::SamplingIntervals> new_intervals GUARDED_BY(mutex);
  device::Follow followed GUARDED_BY(mutex);
  bool is_follow_new GUARDED_BY(mutex) = false;

  std::atomic<bool> stop{false};
  std::thread thread;
};

Monitor::Impl::Impl(Options o)
    : options(std::move(o)),
      history(HistoryOptions{history_path(options)}),
      notifier(options.config.webhook),
      observation(std::in_place, options, monotonic_ns()),
      engine(options.config.rules) {
  restore_alerts();
  publish(Steady::now());
  thread = std::thread([this] { run(); });
}

// A damaged file loses the kept alerts, but monitoring continues.
void Monitor::Impl::restore_alerts() try {
  const Lock lock(alerts_mutex);
  const auto kept = history.kept(kAlertsKey);
  const auto saved = kept ? Json::parse(*kept, nullptr, false) : Json();
  if (saved.is_object()) engine.restore(saved, wall_now());
} catch (const Error& e) {
  log::warn("alerts: what was kept of an earlier run cannot be read: {}", e.what());
}

void Monitor::Impl::begin_stop() noexcept {
  stop = true;
  wake();
}

Monitor::Impl::~Impl() {
  begin_stop();
  thread.join();
  close(wake_fd);
}

void Monitor::Impl::run() {
  while (!stop) {
    wait();
    try {
      take_orders();
      const auto now = Steady::now();
      const auto news = observation->advance(now);
      if (news.urgent || seconds_between(published, now) >= kPublish_s) publish(now);
      for (const auto& event : news.events) subscribers.publish(event);
    } catch (const std::exception& e) {
      log::error("monitor: {}", e.what());
    }
  }
  observation.reset();  // waits for the sampler
}

void Monitor::Impl::wait() {
  std::vector<pollfd> watched{{wake_fd, POLLIN, 0}};
  for (const int fd : observation->fds()) watched.push_back({fd, POLLIN, 0});
  poll(watched.data(), watched.size(), kLook_ms);
  eventfd_t ignored;
  eventfd_read(wake_fd, &ignored);
}

void Monitor::Impl::take_orders() {
  std::optional<device::SamplingIntervals> intervals;
  std::optional<device::Follow> follow;
  {
    const Lock lock(mutex);
    intervals = std::exchange(new_intervals, std::nullopt);
    if (std::exchange(is_follow_new, false)) follow = followed;
  }
  if (intervals) observation->set_intervals(*intervals);
  if (follow) observation->follow(*follow);
}

void Monitor::Impl::publish(Instant now) {
  auto next = std::make_shared<Snapshot>();
  next->sequence = ++sequence;
  next->at = now;
  next->wall = wall_now();
  observation->describe(*next);
  {
    const Lock lock(mutex);
    next->server = server;
    next->owners = owners;
    next->lease_store = lease_store;
  }
  remember(*next);
  next->history_trouble = history.trouble();
  if (!next->history_trouble.empty())
    next->notes.push_back("history is kept in memory only: " + next->history_trouble);
  const auto transitions = evaluate(*next);
  published = now;
  const std::shared_ptr<const Snapshot> ready = std::move(next);
  {
    const Lock lock(mutex);
    snapshot = ready;
  }
  subscribers.publish(ready);
  deliver(transitions);
}

std::vector<Transition> Monitor::Impl::evaluate(Snapshot& next) {
  const Lock lock(alerts_mutex);
  auto transitions = engine.evaluate(next);
  next.alerts = engine.active();
  if (!transitions.empty()) save_alerts();
  return transitions;
}

void Monitor::Impl::deliver(const std::vector<Transition>& transitions) {
  for (const auto& transition : transitions) {
    notifier.deliver(transition);
    subscribers.publish(event_of(transition, wall_now()));
  }
}

void Monitor::Impl::remember(const Snapshot& s) {
  for (const auto& gpu : s.gpus) history.add(gpu.gpu.uuid, gpu.readings, s.at, s.wall);
  history.add("cpu", s.host, s.at, s.wall);
  history.add("server", s.server, s.at, s.wall);
}

Monitor::Monitor(Options options) {
  if (const auto wrong = problems(options.config.rules); !wrong.empty())
    throw Error(Code::invalid_argument, wrong.front());
  impl_ = std::make_unique<Impl>(std::move(options));
}

Monitor::~Monitor() = default;

void Monitor::begin_stop() noexcept { impl_->begin_stop(); }

bool Monitor::flush(double limit_s) { return impl_->history.flush(limit_s); }

std::shared_ptr<const Snapshot> Monitor::snapshot() const {
  const Lock lock(impl_->mutex);
  return impl_->snapshot;
}

std::shared_ptr<void> Monitor::subscribe(OnSnapshot on_snapshot, OnEvent on_event) {
  return impl_->subscribers.add(std::move(on_snapshot), std::move(on_event));
}

Json Monitor::history(const HistoryQuery& query) const {
  return impl_->history.query(query, wall_now());
}

Json Monitor::trends() const { return trends_json(impl_->history, *snapshot()); }

Json Monitor::alerts_json() const {
  const Lock lock(impl_->alerts_mutex);
  return impl_->engine.to_json();
}

void Monitor::silence(const std::string& rule, const std::string& device, double for_s) {
  require(for_s > 0, "silence: for_s must be more than 0");
  const auto now = wall_now();
  const auto until = now + std::chrono::duration_cast<WallTime::duration>(Seconds(for_s));
  const Lock lock(impl_->alerts_mutex);
  impl_->engine.silence(rule, device, until, now);
  impl_->save_alerts();
}

void Monitor::unsilence(const std::string& rule, const std::string& device) {
  const Lock lock(impl_->alerts_mutex);
  impl_->engine.unsilence(rule, device);
  impl_->save_alerts();
}

void Monitor::report_server(device::Metric metric, double value) {
  const Lock lock(impl_->mutex);
  impl_->server.set(metric, value, Steady::now());
}

void Monitor::report_owners(std::vector<OwnerMemory> owners) {
  const Lock lock(impl_->mutex);
  impl_->owners = std::move(owners);
}

void Monitor::report_lease_store(LeaseStore store) {
  const Lock lock(impl_->mutex);
  impl_->lease_store = std::move(store);
}

void Monitor::follow(const std::map<std::string, std::uint64_t>& gpus) {
  {
    const Lock lock(impl_->mutex);
    if (impl_->followed.gpus == gpus) return;
    impl_->followed.gpus = gpus;
    impl_->is_follow_new = true;
  }
  impl_->wake();
}

void Monitor::reload(const WatchConfig& config) {
  if (const auto wrong = problems(config.rules); !wrong.empty())
    throw Error(Code::invalid_argument, wrong.front());
  {
    const Lock lock(impl_->alerts_mutex);
    impl_->engine.set_rules(config.rules);
  }
  impl_->notifier.set_webhook(config.webhook);
  {
    const Lock lock(impl_->mutex);
    impl_->new_intervals = intervals_of(config);
  }
  impl_->wake();
}

}  // namespace sluice::watch

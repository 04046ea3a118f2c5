#include "watch/monitor/sampler_process.h"

#include <fmt/core.h>

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "base/log.h"

namespace sluice::watch {

namespace {

Instant after(Instant now, double s) {
  return now + std::chrono::duration_cast<Steady::duration>(Seconds(s));
}

}  // namespace

struct SamplerProcess::Run {
  Run(const Options& o, Instant now) : child(o.program, arguments(o)), started(now), heard(now) {
    child.say(device::encode(o.intervals));
    if (!o.follow.gpus.empty()) child.say(device::encode(o.follow));
  }

  static std::vector<std::string> arguments(const Options& o) {
    std::vector<std::string> all{"sampler", "--fd", std::to_string(Child::kFd)};
    if (!o.demo.empty())
      all.insert(all.end(), {"--demo", o.demo, "--epoch", std::to_string(o.demo_epoch_ns)});
    return all;
  }

  const device::Busy* longest_call() const {
    const auto oldest = std::ranges::min_element(busy, {}, &device::Busy::since);
    return oldest == busy.end() ? nullptr : &*oldest;
  }

  Child child;
  Instant started, heard;
  bool found = false;              // GPUs
  std::string driver_trouble;      // of a driver that is down beside those
  std::optional<device::End> end;  // its last word
  std::vector<device::Busy> busy;
  std::vector<device::Message> kept;  // of a successor, until it takes over
};

SamplerProcess::SamplerProcess(Options options)
    : options_(std::move(options)),
      retry_s_(options_.timing.first_retry_s),
      refresh_s_(options_.timing.first_refresh_s) {}

SamplerProcess::~SamplerProcess() {
  const auto now = Steady::now();
  if (current_) retire(std::move(current_), now);
  if (successor_) retire(std::move(successor_), now);
  const auto until = after(now, options_.timing.grace_s + 0.2);
  const auto gone = [](const auto& run) { return run->child.has_ended(); };
  while (!std::ranges::all_of(ending_, gone) && Steady::now() < until) {
    for (const auto& run : ending_) run->child.advance(Steady::now());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

std::vector<int> SamplerProcess::fds() const {
  std::vector<int> all;
  for (const auto* run : {current_.get(), successor_.get()})
    if (run != nullptr && !run->child.closed()) all.push_back(run->child.fd());
  return all;
}

void SamplerProcess::set_intervals(const device::SamplingIntervals& intervals) {
  options_.intervals = intervals;
  for (auto* run : {current_.get(), successor_.get()})
    if (run != nullptr) run->child.say(device::encode(intervals));
}

void SamplerProcess::follow(const device::Follow& follow) {
  options_.follow = follow;
  for (auto* run : {current_.get(), successor_.get()})
    if (run != nullptr) run->child.say(device::encode(follow));
}

bool SamplerProcess::crowded() const noexcept { return ending_.size() >= kMaxEnding; }

void SamplerProcess::start(Instant now) {
  if (crowded()) return;
  try {
    current_ = std::make_unique<Run>(options_, now);
  } catch (const Error& e) {
    why_not_ = e.what();
    start_at_ = after(now, retry_s_);
    retry_s_ = std::min(retry_s_ * 2, options_.timing.longest_retry_s);
  }
}

void SamplerProcess::start_successor(Instant now) {
  if (crowded()) return;
  try {
    successor_ = std::make_unique<Run>(options_, now);
  } catch (const Error& e) {
    log::warn("sampler: {}", e.what());
  }
  refresh_at_ = after(now, refresh_s_);
  refresh_s_ = std::min(refresh_s_ * 2, options_.timing.longest_refresh_s);
}

void SamplerProcess::read(Run& run, Instant now, std::vector<device::Message>& into) {
  for (const auto& line : run.child.lines()) {
    try {
      auto message = device::decode(line);
      run.heard = now;
      if (auto* beat = std::get_if<device::Beat>(&message)) run.busy = beat->busy;
      if (const auto* found = std::get_if<device::Found>(&message)) {
        run.found = run.found || !found->gpus.empty();
        run.driver_trouble = found->driver_trouble;
      }
      if (const auto* end = std::get_if<device::End>(&message)) run.end = *end;
      into.push_back(std::move(message));
    } catch (const Error& e) {
      log::warn("{}", e.what());
    }
  }
}

void SamplerProcess::retire(std::unique_ptr<Run> run, Instant now) {
  run->child.end(now, options_.timing.grace_s);
  ending_.push_back(std::move(run));
}

void SamplerProcess::current_ended(Instant now, Update& update) {
  const auto& t = options_.timing;
  const bool by_itself = current_->end.has_value();
  why_not_ = by_itself ? current_->end->why : current_->child.how_it_ended();
  driver_fault_ = by_itself && current_->end->fault;
  had_gpus_ = had_gpus_ || current_->found;
  if (had_gpus_) update.silence = {current_->heard, "the sampler process ended: " + why_not_};
  if (by_itself) {
    // Nothing to watch on this machine: look again now and then.
    retry_s_ = had_gpus_ ? std::max(retry_s_, 1.0) : t.longest_retry_s;
  } else {
    log::warn("sampler {} ended: {}", current_->child.pid(), why_not_);
    if (seconds_between(current_->started, now) > 60) retry_s_ = t.first_retry_s;
    ++restarts_;
  }
  start_at_ = after(now, retry_s_);
  retry_s_ = std::min(retry_s_ * 2, t.longest_retry_s);
  retire(std::move(current_), now);
}

void SamplerProcess::watch_current(Instant now, Update& update) {
  const auto& t = options_.timing;
  if (!current_) {
    if (now >= start_at_) start(now);
    return;
  }
  read(*current_, now, update.messages);
  if (current_->child.closed() && current_->child.has_ended()) return current_ended(now, update);
  const double quiet = seconds_between(current_->heard, now);
  const double limit = current_->found ? t.kill_after_s : t.start_limit_s;
  if (quiet >= t.silent_after_s && current_->found)
    update.silence = {current_->heard, "the sampler process hangs"};
  if (quiet >= limit) {
    log::warn("sampler {} has been silent for {:.1f} s; starting another", current_->child.pid(),
              quiet);
    why_not_ = "it hung";
    driver_fault_ = false;
    had_gpus_ = had_gpus_ || current_->found;
    if (seconds_between(current_->started, now) > 60) retry_s_ = t.first_retry_s;
    retire(std::move(current_), now);
    ++restarts_;
    start_at_ = after(now, retry_s_);
    retry_s_ = std::min(retry_s_ * 2, t.longest_retry_s);
  }
}

bool SamplerProcess::in_trouble(Instant now, bool any_gone) {
  const auto& t = options_.timing;
  if (!any_gone) gone_since_.reset();
  if (any_gone && !gone_since_) gone_since_ = now;
  // One that has not found anything yet may only be slow to start.
  const bool ready = current_->found || seconds_between(current_->started, now) >= t.hung_call_s;
  if (ready && gone_since_ && seconds_between(*gone_since_, now) >= t.gone_s) return true;
  const auto* call = current_->longest_call();
  return call != nullptr && seconds_between(call->since, now) >= t.hung_call_s;
}

void SamplerProcess::watch_successor(Instant now, Update& update) {
  if (!successor_) return;
  read(*successor_, now, successor_->kept);
  if (successor_->found) {
    if (current_) retire(std::move(current_), now);
    current_ = std::move(successor_);
    ++restarts_;
    for (auto& message : current_->kept) update.messages.push_back(std::move(message));
    current_->kept.clear();
  } else if (successor_->child.closed() ||
             seconds_between(successor_->started, now) >= options_.timing.start_limit_s) {
    retire(std::move(successor_), now);
  }
}

SamplerProcess::Update SamplerProcess::advance(Instant now, bool any_gone) {
  Update update;
  watch_current(now, update);
  watch_successor(now, update);
  if (current_ && !successor_) {
    if (!in_trouble(now, any_gone)) {
      if (!any_gone && now > after(refresh_at_, 60)) refresh_s_ = options_.timing.first_refresh_s;
    } else if (now >= refresh_at_) {
      start_successor(now);
    }
  }
  for (const auto& run : ending_) run->child.advance(now);
  std::erase_if(ending_, [](const auto& run) { return run->child.has_ended(); });
  for (const auto& message : update.messages)
    if (const auto* beat = std::get_if<device::Beat>(&message)) last_cost_ = beat->cost;
  auto state = describe(now);
  update.changed = state != state_;
  state_ = std::move(state);
  return update;
}

std::string SamplerProcess::describe(Instant now) const {
  const auto& t = options_.timing;
  const auto stuck =
      fmt::format("{} earlier samplers hang in the driver and cannot be ended", ending_.size());
  if (crowded() && !current_) return "down: " + stuck;
  const bool looks_again = current_ && !current_->found && !had_gpus_;
  if (!why_not_.empty() && (!current_ || looks_again))
    return (driver_fault_ ? "no driver: " : had_gpus_ ? "down: " : "not needed: ") + why_not_;
  if (!current_) return "starting";
  if (seconds_between(current_->heard, now) >= t.silent_after_s) return "hung";
  const auto* call = current_->longest_call();
  if (call != nullptr && seconds_between(call->since, now) >= t.slow_call_s)
    return "hung in " + call->call;
  if (!current_->found) return "starting";
  return crowded() ? "running; " + stuck : "running";
}

SamplerCost SamplerProcess::cost() const {
  SamplerCost cost;
  cost.core_share = last_cost_.core_share;
  cost.driver_share = last_cost_.driver_share;
  cost.interval_scale = last_cost_.interval_scale;
  cost.calls = last_cost_.calls;
  cost.errors = last_cost_.errors;
  cost.restarts = restarts_;
  cost.pid = current_ ? current_->child.pid() : 0;
  cost.state = state_;
  if (state_.starts_with("no driver: ")) cost.driver_trouble = why_not_;
  if (current_ && current_->found) cost.driver_trouble = current_->driver_trouble;
  return cost;
}

}  // namespace sluice::watch

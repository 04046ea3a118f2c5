#include "compute/executor/executor.h"

#include <algorithm>
#include <condition_variable>
#include <list>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "base/cancellation.h"
#include "base/mutex.h"

namespace sluice::compute {

struct ExecutorJob {
  explicit ExecutorJob(Executor::Call of) : call(std::move(of)) {}

  enum class End { none, cancelled, expired };

  Executor::Call call;
  std::stop_source stop{};
  End end = End::none;  // guarded by the state's mutex
};

using Job = std::shared_ptr<ExecutorJob>;

namespace {

std::exception_ptr error_of(ExecutorJob::End end) {
  return end == ExecutorJob::End::expired ? std::make_exception_ptr(DeadlineExceeded())
                                          : std::make_exception_ptr(Cancelled());
}

}  // namespace

struct ExecutorState {
  explicit ExecutorState(const ExecutorOptions& with) : options(with) {}

  void start() REQUIRES(mutex);
  void run_calls();
  void end_calls();
  void cancel(const Job& job);
  void stop();

  const ExecutorOptions options;
  mutable Mutex mutex;
  std::condition_variable_any for_runners, for_keeper;
  std::list<Job> waiting GUARDED_BY(mutex), running GUARDED_BY(mutex);
  ExecutorCounts counts GUARDED_BY(mutex);
  bool stopping GUARDED_BY(mutex) = false;
  Instant wake_at GUARDED_BY(mutex) = Instant::max();  // when the keeper looks by itself
  std::vector<std::thread> threads;

 private:
  Job next();
  void finish(const Job& job, std::exception_ptr error);
  bool has_ended(ExecutorJob& job, Instant now) REQUIRES(mutex);
  std::vector<Job> take_ended(Instant now) REQUIRES(mutex);
};

// The next call; none once the executor stops and no call waits.
Job ExecutorState::next() {
  mutex.lock();
  while (waiting.empty() && !stopping) for_runners.wait(mutex);
  Job job;
  if (!stopping) {
    running.splice(running.end(), waiting, waiting.begin());
    job = running.back();
  }
  mutex.unlock();
  return job;
}

// The threads begin with the first call: programs that only run calls by themselves have none.
void ExecutorState::start() {
  constexpr std::size_t kLeast = 2;  // the keeper and a runner
  if (threads.size() >= kLeast) return;
  try {
    while (threads.size() < options.threads + 1) {
      const bool keeps = threads.empty();
      threads.emplace_back([this, keeps] { keeps ? end_calls() : run_calls(); });
    }
  } catch (const std::exception&) {  // the next call tries again
    if (threads.size() < kLeast)
      throw Error(Code::exhausted, "the system has no room for a thread");
  }
}

void ExecutorState::finish(const Job& job, std::exception_ptr error) {
  ExecutorJob::End end = ExecutorJob::End::none;
  {
    const Lock lock(mutex);
    running.remove(job);
    // A call that ended by itself, just as it was cancelled, ended by itself.
    if (error) end = job->end;
    ++(end == ExecutorJob::End::none        ? counts.done
       : end == ExecutorJob::End::cancelled ? counts.cancelled
                                            : counts.expired);
  }
  job->call.done(end == ExecutorJob::End::none ? error : error_of(end));
}

void ExecutorState::run_calls() {
  while (const Job job = next()) {
    std::exception_ptr error;
    try {
      const std::stop_token token = job->stop.get_token();
      const CancelScope scope(token);
      throw_if_cancelled();
      job->call.run();
    } catch (...) {
      error = std::current_exception();
    }
    finish(job, error);
  }
}

// Whether the call is to end now; else the keeper looks again at its deadline.
bool ExecutorState::has_ended(ExecutorJob& job, Instant now) {
  if (job.end == ExecutorJob::End::none && stopping) job.end = ExecutorJob::End::cancelled;
  if (job.end == ExecutorJob::End::none && job.call.deadline <= now)
    job.end = ExecutorJob::End::expired;
  if (job.end != ExecutorJob::End::none) return true;
  wake_at = std::min(wake_at, job.call.deadline);
  return false;
}

// Takes the waiting calls whose end has come, and asks the running ones to stop.
std::vector<Job> ExecutorState::take_ended(Instant now) {
  std::vector<Job> ended;
  wake_at = Instant::max();
  for (const Job& job : running)
    if (has_ended(*job, now)) job->stop.request_stop();
  for (auto job = waiting.begin(); job != waiting.end();) {
    if (!has_ended(**job, now)) {
      ++job;
      continue;
    }
    ++((*job)->end == ExecutorJob::End::cancelled ? counts.cancelled : counts.expired);
    ended.push_back(*job);
    job = waiting.erase(job);
  }
  return ended;
}

// The thread that ends calls whose deadline passed or that were cancelled.
void ExecutorState::end_calls() {
  mutex.lock();
  while (true) {
    const std::vector<Job> ended = take_ended(Steady::now());
    const bool last = stopping;
    if (!ended.empty()) {
      mutex.unlock();
      for (const Job& job : ended) job->call.done(error_of(job->end));
      mutex.lock();
      continue;
    }
    if (last) break;
    if (wake_at == Instant::max())
      for_keeper.wait(mutex);
    else
      for_keeper.wait_until(mutex, wake_at);
  }
  mutex.unlock();
}

void ExecutorState::cancel(const Job& job) {
  {
    const Lock lock(mutex);
    if (job->end == ExecutorJob::End::none) job->end = ExecutorJob::End::cancelled;
  }
  for_keeper.notify_one();
}

void ExecutorState::stop() {
  {
    const Lock lock(mutex);
    stopping = true;
  }
  for_keeper.notify_one();
  for_runners.notify_all();
  for (std::thread& thread : threads) thread.join();
}

void Executor::Ticket::cancel() const {
  const auto state = state_.lock();
  const auto job = job_.lock();
  if (state && job) state->cancel(job);
}

Executor::Executor(const ExecutorOptions& options)
    : state_(std::make_shared<ExecutorState>(options)) {
  require(options.threads > 0, "an executor without threads");
}

Executor::~Executor() { state_->stop(); }

std::optional<Executor::Ticket> Executor::submit(Call call) {
  const auto job = std::make_shared<ExecutorJob>(std::move(call));
  Ticket ticket;
  ticket.job_ = job;
  ticket.state_ = state_;
  bool is_next_to_end = false;
  {
    const Lock lock(state_->mutex);
    state_->start();
    if (state_->waiting.size() >= state_->options.max_waiting) {
      ++state_->counts.refused;
      return std::nullopt;
    }
    state_->waiting.push_back(job);
    is_next_to_end = job->call.deadline < state_->wake_at;
  }
  state_->for_runners.notify_one();
  if (is_next_to_end) state_->for_keeper.notify_one();
  return ticket;
}

ExecutorCounts Executor::counts() const {
  const Lock lock(state_->mutex);
  ExecutorCounts counts = state_->counts;
  counts.waiting = state_->waiting.size();
  counts.running = state_->running.size();
  return counts;
}

}  // namespace sluice::compute

#include "serve/market_service.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/cancellation.h"
#include "compute/worker/worker.h"
#include "market/operations.h"
#include "market/request/request.h"

namespace sluice::serve {

// Counts a job as waiting or running.
class MarketService::Counted {
 public:
  explicit Counted(std::atomic<std::size_t>& count) noexcept : count_(&count) { ++count; }
  Counted(Counted&& other) noexcept : count_(std::exchange(other.count_, nullptr)) {}
  Counted& operator=(Counted&&) = delete;
  ~Counted() {
    if (count_ != nullptr) --*count_;
  }

 private:
  std::atomic<std::size_t>* count_;
};

// A job while a thread works on it: it can be cancelled, and its time runs.
class MarketService::UnderWay {
 public:
  UnderWay(MarketService& market, Job& job) : market_(market), job_(job) {
    const Lock lock(market_.mutex_);
    market_.under_way_.insert(&job_);
    set_begun(Steady::now());
    if (market_.ending_) job_.cancel();
  }
  ~UnderWay() {
    const Lock lock(market_.mutex_);
    market_.under_way_.erase(&job_);
    set_begun(std::nullopt);
  }

 private:
  void set_begun(std::optional<Instant> begun) {
    const Lock lock(job_.mutex_);
    job_.begun_ = begun;
  }

  MarketService& market_;
  Job& job_;
};

std::optional<MarketService::Answer> MarketService::Job::take(Instant now) {
  const Lock lock(mutex_);
  if (failed_) std::rethrow_exception(failed_);
  if (!answer_ && begun_ && seconds_between(*begun_, now) > max_time_.count() && !expired_) {
    expired_ = true;
    stop_.request_stop();
  }
  return std::move(answer_);
}

MarketService::MarketService(MarketOptions options, std::function<std::string()> veto,
                             std::function<void()> on_done)
    : options_(std::move(options)),
      veto_(std::move(veto)),
      on_done_(std::move(on_done)),
      slow_(options_.slow),
      quick_(options_.quick) {}

MarketService::~MarketService() {
  ending_ = true;
  cancel_all();
}

void MarketService::cancel_all() {
  const Lock lock(mutex_);
  for (Job* job : under_way_) job->cancel();
}

bool MarketService::idle_within(Seconds limit) const {
  const auto until = Steady::now() + std::chrono::duration_cast<Steady::duration>(limit);
  while (waiting_ > 0 && Steady::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return waiting_ == 0;
}

bool MarketService::end(Seconds limit) {
  ending_ = true;
  if (idle_within(limit)) return true;
  cancel_all();
  return idle_within(limit);
}

std::shared_ptr<MarketService::Job> MarketService::ask(std::string client, std::string what,
                                                       std::string request,
                                                       std::shared_ptr<MemoryBudget> memory,
                                                       MemoryBudget::Charge held) {
  held.hold(request.size());
  auto job = std::make_shared<Job>();
  job->memory_ = std::move(memory);
  job->held_ = std::move(held);
  job->client_ = std::move(client);
  job->what_ = std::move(what);
  job->request_ = std::move(request);
  job->max_time_ = options_.max_time;
  post(job->request_.size() > options_.quick_body ? slow_ : quick_, job);
  return job;
}

void MarketService::post(FairPool& pool, std::shared_ptr<Job> job) {
  const std::string client = job->client_;
  if (!pool.has_capacity(client))
    throw Error(Code::exhausted, "too many calculations are waiting; ask again in a moment");
  const double max_work = &pool == &quick_ ? options_.quick_work : options_.max_work;
  pool.post(client, FairPool::Work([this, counted = Counted(waiting_), job = std::move(job),
                                    max_work]() mutable {
              if (!ending_ && !job->stop_.stop_requested()) work(job, max_work);
              job.reset();
              if (!ending_) on_done_();
            }));
}

void MarketService::work(const std::shared_ptr<Job>& job, double max_work) {
  try {
    finish(*job, answer_of(*job, max_work));
  } catch (const market::TooMuchWork& e) {
    if (e.work() <= options_.max_work) return work_later(job);
    fail(*job,
         std::make_exception_ptr(market::TooMuchWork(e.work(), e.fields(), options_.max_work)));
  } catch (const std::bad_alloc&) {
    fail(*job,
         std::make_exception_ptr(BudgetExhausted("there is not enough memory for this request")));
  } catch (const Error&) {
    fail(*job, std::current_exception());
  } catch (const std::exception& e) {
    fail(*job, std::make_exception_ptr(Error(Code::internal, e.what())));
  }
}

// A long one: not here.
void MarketService::work_later(const std::shared_ptr<Job>& job) {
  try {
    post(slow_, job);
  } catch (const Error&) {
    fail(*job, std::current_exception());
  }
}

MarketService::Answer MarketService::answer_of(Job& job, double max_work) {
  const UnderWay under_way(*this, job);
  const std::stop_token token = job.stop_.get_token();
  const CancelScope scope(token);
  JsonText text = market::answer_body(compute(), job.what_, job.request_,
                                      {.max_work = max_work, .memory = &job.held_});
  if (text.size() > options_.max_text) return {{}, std::move(text)};
  return {to_text(std::move(text)), std::nullopt};
}

void MarketService::finish(Job& job, Answer answer) {
  job.request_ = {};
  job.held_.hold(answer.rest ? answer.rest->memory() : answer.text.size(), "the answer needs");
  const Lock lock(job.mutex_);
  job.answer_ = std::move(answer);
}

void MarketService::discard(std::shared_ptr<Job> job) {
  job->cancel();
  {
    const Lock lock(job->mutex_);
    if (!job->answer_ || !job->answer_->rest) return;
  }
  const std::string client = job->client_;
  quick_.post(client, FairPool::Work([left = std::move(job)] {}));
}

void MarketService::discard(JsonText rest, std::shared_ptr<Job> job) {
  const std::string client = job->client_;
  // Members of a pair are destroyed in reverse order, so the charge outlives what is charged for.
  quick_.post(client, FairPool::Work([left = std::pair(std::move(job), std::move(rest))] {}));
}

void MarketService::fail(Job& job, std::exception_ptr why) {
  job.request_ = {};
  job.held_.release();
  const Lock lock(job.mutex_);
  if (job.expired_)
    why = std::make_exception_ptr(Error(
        Code::invalid_argument,
        fmt::format("the calculation was ended after {:.0f} s, which is all that one may take "
                    "here: ask for less at once",
                    options_.max_time.count())));
  job.failed_ = std::move(why);
}

compute::Compute& MarketService::compute() {
  const Lock lock(mutex_);
  if (compute_) return *compute_;
  compute::ComputeOptions made{.no_accelerator = options_.no_gpu, .costs = options_.costs};
  if (market::operations().front()->gpu == nullptr) {
    made.no_accelerator = "this program was built without CUDA";
  } else if (!options_.program.empty()) {
    made.accelerator = compute::make_worker_accelerator(
        {.program = options_.program,
         .arguments = {"gpu-worker", "--pools", memory::to_json(options_.pools).dump()}});
    made.veto = veto_;
  }
  compute_ = std::make_unique<compute::Compute>(std::move(made));
  return *compute_;
}

MarketService::Stats MarketService::stats() const {
  const Lock lock(mutex_);
  if (!compute_) return {.waiting = waiting_};
  return {compute_->stats(), waiting_, compute_->pools()};
}

}  // namespace sluice::serve

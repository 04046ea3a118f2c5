#include "serve/market_desk.h"

#include <boost/asio/post.hpp>
#include <nlohmann/json.hpp>
#include <thread>

#include "compute/worker.h"
#include "market/operations.h"
#include "market/request/request.h"

namespace sluice::serve {

std::optional<std::string> MarketDesk::Job::take() {
  const Lock lock(mutex_);
  if (failed_) throw Error(*failed_);
  return std::move(answer_);
}

MarketDesk::MarketDesk(MarketOptions options, std::function<std::string()> veto,
                       std::function<void()> on_done)
    : options_(std::move(options)),
      veto_(std::move(veto)),
      on_done_(std::move(on_done)),
      pool_(options_.threads) {}

MarketDesk::~MarketDesk() {
  ending_ = true;
  pool_.join();
}

bool MarketDesk::end(Seconds limit) {
  ending_ = true;
  const auto until = Steady::now() + std::chrono::duration_cast<Steady::duration>(limit);
  while (waiting_ > 0 && Steady::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return waiting_ == 0;
}

std::shared_ptr<MarketDesk::Job> MarketDesk::ask(std::string what, std::string request) {
  if (waiting_.fetch_add(1) >= options_.most_waiting) {
    --waiting_;
    throw Error(Code::exhausted, "too many calculations are waiting; ask again in a moment");
  }
  auto job = std::make_shared<Job>();
  job->what_ = std::move(what);
  job->request_ = std::move(request);
  boost::asio::post(pool_, [this, job] {
    if (!ending_ && !job->cancelled_) work(*job);
    --waiting_;
    if (!ending_) on_done_();
  });
  return job;
}

void MarketDesk::work(Job& job) {
  std::optional<std::string> answer;
  std::optional<Error> failed;
  try {
    answer =
        market::answer_text(compute(), job.what_, job.request_, {.most_work = options_.most_work});
  } catch (const Error& e) {
    failed = e;
  } catch (const std::bad_alloc&) {
    failed = Error(Code::exhausted, "there is not enough memory for this request");
  } catch (const std::exception& e) {
    failed = Error(Code::internal, e.what());
  }
  const Lock lock(job.mutex_);
  job.answer_ = std::move(answer);
  job.failed_ = std::move(failed);
}

compute::Compute& MarketDesk::compute() {
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

MarketDesk::Figures MarketDesk::figures() const {
  const Lock lock(mutex_);
  if (!compute_) return {.waiting = waiting_};
  return {compute_->figures(), waiting_, compute_->pools()};
}

}  // namespace sluice::serve

#include "compute/workers.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/cancellation.h"
#include "base/error.h"
#include "device/host/cpu.h"

namespace sluice::compute {
namespace {

// One call of each(): threads take chunks until none is left.
struct Job {
  std::size_t count, grain;
  void* body;
  void (*piece)(void*, std::size_t, std::size_t);
  const std::stop_token* cancel = cancel_token();  // the caller's
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error{};          // of the first body that threw; read after all have left
  std::atomic<std::size_t> inside{0};  // threads; changes under the pool's lock

  bool open() const { return next.load(std::memory_order_relaxed) < count; }

  void work() {
    const CancelScope scope(cancel);
    while (!failed.load(std::memory_order_relaxed)) {
      const std::size_t begin = next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= count) return;
      try {
        throw_if_cancelled();
        piece(body, begin, std::min(begin + grain, count));
      } catch (...) {
        if (!failed.exchange(true)) error = std::current_exception();
      }
    }
  }
};

thread_local bool inside_a_body = false;

// A thread that sleeps is slow to wake (50 us and more on virtual machines), and work often
// comes in quick succession: so waiting begins with looking, and lets others run meanwhile.
template <class Done>
void look_out(const Done& done) {
  constexpr auto kPatience = std::chrono::microseconds(100);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!done() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
}

}  // namespace

struct Workers::Impl {
  std::mutex mutex;
  std::condition_variable wake, left;
  std::vector<Job*> jobs;                // that may have chunks left
  std::atomic<std::uint64_t> posted{0};  // jobs so far
  std::atomic<bool> ending{false};
  std::vector<std::thread> threads;

  void end() {
    {
      const std::lock_guard lock(mutex);
      ending = true;
    }
    wake.notify_all();
    for (auto& thread : threads) thread.join();
  }

  Job* open_job() {
    for (Job* job : jobs)
      if (job->open()) return job;
    return nullptr;
  }

  void serve() {
    inside_a_body = true;
    std::unique_lock lock(mutex);
    for (;;) {
      Job* job = open_job();
      if (job == nullptr && !ending) {
        const std::uint64_t seen = posted;
        lock.unlock();
        look_out([&] { return posted != seen || ending; });
        lock.lock();
      }
      wake.wait(lock, [&] { return ending || (job = open_job()) != nullptr; });
      if (ending) return;
      ++job->inside;
      lock.unlock();
      job->work();
      lock.lock();
      if (--job->inside == 0) left.notify_all();
    }
  }
};

Workers::Workers(int threads) : impl_(std::make_unique<Impl>()) {
  const int count =
      threads > 0 ? threads : static_cast<int>(std::ceil(device::detect_cpu().usable_cores));
  try {
    for (int i = 1; i < count; ++i)
      impl_->threads.emplace_back([impl = impl_.get()] { impl->serve(); });
  } catch (const std::exception&) {
    impl_->end();
    throw Error(Code::exhausted,
                "the system has no room for " + std::to_string(count) + " threads: give fewer");
  }
}

Workers::~Workers() { impl_->end(); }

int Workers::threads() const noexcept { return static_cast<int>(impl_->threads.size()) + 1; }

void Workers::run(std::size_t count, std::size_t grain, void* body, Piece piece) {
  if (count == 0) return;
  Job job{.count = count, .grain = std::max<std::size_t>(grain, 1), .body = body, .piece = piece};
  if (inside_a_body || impl_->threads.empty() || count <= job.grain) {
    job.work();
  } else {
    std::unique_lock lock(impl_->mutex);
    impl_->jobs.push_back(&job);
    ++impl_->posted;
    lock.unlock();
    impl_->wake.notify_all();
    inside_a_body = true;
    job.work();
    inside_a_body = false;
    lock.lock();
    std::erase(impl_->jobs, &job);
    lock.unlock();
    look_out([&] { return job.inside == 0; });
    lock.lock();
    impl_->left.wait(lock, [&] { return job.inside == 0; });
  }
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace sluice::compute

#include "engine/session/gpu_failover.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace sluice::engine {
namespace {

constexpr int kMaxTimes = 2;              // that inputs may end a generation
constexpr int kMaxTransientFailures = 3;  // in a row
constexpr std::size_t kMaxBlamed = 16;    // the first of them is forgiven

bool alive(const device::Health& health) {
  return health.state == device::HealthState::healthy ||
         health.state == device::HealthState::degraded;
}

}  // namespace

GpuFailover::GpuFailover(std::unique_ptr<Gpu> gpu, const device::HealthPolicy& policy,
                         std::function<std::string()> veto)
    : gpu_(std::move(gpu)),
      policy_(policy),
      veto_(std::move(veto)),
      generation_(gpu_ ? std::make_shared<Generation>() : nullptr) {}

std::vector<GpuFailover::Blamed>::iterator GpuFailover::blamed(std::span<const TensorType> types) {
  return std::find_if(blamed_.begin(), blamed_.end(), [&](const Blamed& one) {
    return std::equal(one.types.begin(), one.types.end(), types.begin(), types.end());
  });
}

std::shared_ptr<GpuFailover::Generation> GpuFailover::acquire(std::span<const TensorType> types) {
  if (!gpu_ || (veto_ && !veto_().empty())) return nullptr;
  {
    const Lock lock(mutex_);
    const auto found = blamed(types);
    if (ended_ || (found != blamed_.end() && found->times >= kMaxTimes)) return nullptr;
    if (alive(health_)) return generation_;
    if (reviving_) return nullptr;
    health_ = device::step(health_, {}, policy_, gpu_->now());
    if (!health_.wants_canary) return nullptr;
    reviving_ = true;
  }
  return revive();
}

std::shared_ptr<GpuFailover::Generation> GpuFailover::revive() {
  device::Evidence evidence;
  bool for_good = false;
  try {
    gpu_->revive();
    evidence.canary = device::Canary::passed;
  } catch (const Error& error) {
    evidence.canary = device::Canary::failed;
    evidence.canary_note = std::string(error.reason());
    for_good = error.code() == Code::unavailable;
  } catch (const std::exception& error) {  // for example std::bad_alloc
    evidence.canary = device::Canary::failed;
    evidence.canary_note = error.what();
  }
  const Lock lock(mutex_);
  reviving_ = false;
  health_ = device::step(health_, evidence, policy_, gpu_->now());
  ended_ = for_good;
  if (ended_) health_.cause = evidence.canary_note;
  if (alive(health_)) {
    generation_ = std::make_shared<Generation>();
    log::info("the GPU computes again: models run on it");
  } else {
    log::warn("the GPU is not back: {}{}", health_.cause, ended_ ? "; it is not tried again" : "");
  }
  return generation_;
}

void GpuFailover::succeeded(std::span<const TensorType> types) {
  const Lock lock(mutex_);
  transient_failures_ = 0;
  if (const auto found = blamed(types); found != blamed_.end()) blamed_.erase(found);
}

void GpuFailover::failed_transiently(const Generation& generation,
                                     std::span<const TensorType> types, const std::string& why) {
  {
    const Lock lock(mutex_);
    if (generation_.get() != &generation || ++transient_failures_ < kMaxTransientFailures) return;
    transient_failures_ = 0;
  }
  failed(generation, types, why);
}

void GpuFailover::failed(const Generation& generation, std::span<const TensorType> types,
                         const std::string& why) {
  std::shared_ptr<Generation> ended;  // its programs are destroyed after the lock
  const Lock lock(mutex_);
  if (generation_.get() != &generation) return;  // that generation has already ended
  device::Evidence evidence;
  evidence.gone = true;
  evidence.silence = why;
  health_ = device::step(health_, evidence, policy_, gpu_->now());
  std::swap(ended, generation_);
  const auto found = blamed(types);
  if (found != blamed_.end())
    ++found->times;
  else
    blamed_.push_back({{types.begin(), types.end()}, 1});
  if (blamed_.size() > kMaxBlamed) blamed_.erase(blamed_.begin());
  log::warn("a model failed on the GPU: {}; it runs on the CPU until the GPU is back", why);
}

std::shared_ptr<GpuFailover::Generation> GpuFailover::current() const {
  const Lock lock(mutex_);
  return generation_;
}

std::string GpuFailover::why_not() const {
  if (gpu_ && veto_)
    if (std::string why = veto_(); !why.empty()) return why;
  const Lock lock(mutex_);
  return alive(health_) ? "" : health_.cause;
}

}  // namespace sluice::engine

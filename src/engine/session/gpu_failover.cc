#include "engine/session/gpu_failover.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace sluice::engine {
namespace {

constexpr int kMostTimes = 2;            // that inputs may end a life
constexpr int kMostStumbles = 3;         // in a row
constexpr std::size_t kMostBlamed = 16;  // the first of them is forgiven

bool alive(const device::Health& health) {
  return health.state == device::HealthState::healthy ||
         health.state == device::HealthState::degraded;
}

}  // namespace

GpuTurn::GpuTurn(std::unique_ptr<Gpu> gpu, const device::HealthPolicy& policy,
                 std::function<std::string()> veto)
    : gpu_(std::move(gpu)),
      policy_(policy),
      veto_(std::move(veto)),
      life_(gpu_ ? std::make_shared<Life>() : nullptr) {}

std::vector<GpuTurn::Blamed>::iterator GpuTurn::blamed(std::span<const TensorType> types) {
  return std::find_if(blamed_.begin(), blamed_.end(), [&](const Blamed& one) {
    return std::equal(one.types.begin(), one.types.end(), types.begin(), types.end());
  });
}

std::shared_ptr<GpuTurn::Life> GpuTurn::life(std::span<const TensorType> types) {
  if (!gpu_ || (veto_ && !veto_().empty())) return nullptr;
  {
    const Lock lock(mutex_);
    const auto found = blamed(types);
    if (ended_ || (found != blamed_.end() && found->times >= kMostTimes)) return nullptr;
    if (alive(health_)) return life_;
    if (reviving_) return nullptr;
    health_ = device::step(health_, {}, policy_, gpu_->now());
    if (!health_.wants_canary) return nullptr;
    reviving_ = true;
  }
  return revive();
}

std::shared_ptr<GpuTurn::Life> GpuTurn::revive() {
  device::Evidence evidence;
  bool for_good = false;
  try {
    gpu_->revive();
    evidence.canary = device::Canary::passed;
  } catch (const Error& error) {
    evidence.canary = device::Canary::failed;
    evidence.canary_note = std::string(error.reason());
    for_good = error.code() == Code::unavailable;
  } catch (const std::exception& error) {  // no memory on the host, for one
    evidence.canary = device::Canary::failed;
    evidence.canary_note = error.what();
  }
  const Lock lock(mutex_);
  reviving_ = false;
  health_ = device::step(health_, evidence, policy_, gpu_->now());
  ended_ = for_good;
  if (ended_) health_.cause = evidence.canary_note;
  if (alive(health_)) {
    life_ = std::make_shared<Life>();
    log::info("the GPU computes again: models run on it");
  } else {
    log::warn("the GPU is not back: {}{}", health_.cause, ended_ ? "; it is not tried again" : "");
  }
  return life_;
}

void GpuTurn::worked(std::span<const TensorType> types) {
  const Lock lock(mutex_);
  stumbles_ = 0;
  if (const auto found = blamed(types); found != blamed_.end()) blamed_.erase(found);
}

void GpuTurn::stumbled(const Life& life, std::span<const TensorType> types,
                       const std::string& why) {
  {
    const Lock lock(mutex_);
    if (life_.get() != &life || ++stumbles_ < kMostStumbles) return;
    stumbles_ = 0;
  }
  failed(life, types, why);
}

void GpuTurn::failed(const Life& life, std::span<const TensorType> types, const std::string& why) {
  std::shared_ptr<Life> over;  // its programs end after the lock
  const Lock lock(mutex_);
  if (life_.get() != &life) return;  // the end of that life is known
  device::Evidence evidence;
  evidence.gone = true;
  evidence.silence = why;
  health_ = device::step(health_, evidence, policy_, gpu_->now());
  std::swap(over, life_);
  const auto found = blamed(types);
  if (found != blamed_.end())
    ++found->times;
  else
    blamed_.push_back({{types.begin(), types.end()}, 1});
  if (blamed_.size() > kMostBlamed) blamed_.erase(blamed_.begin());
  log::warn("a model failed on the GPU: {}; it runs on the CPU until the GPU is back", why);
}

std::shared_ptr<GpuTurn::Life> GpuTurn::present() const {
  const Lock lock(mutex_);
  return life_;
}

std::string GpuTurn::why_not() const {
  if (gpu_ && veto_)
    if (std::string why = veto_(); !why.empty()) return why;
  const Lock lock(mutex_);
  return alive(health_) ? "" : health_.cause;
}

}  // namespace sluice::engine

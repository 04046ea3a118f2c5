#include "device/sampler/sampler_search.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "device/demo/demo.h"
#include "device/detect/detect_amd.h"
#include "device/detect/detect_intel.h"
#include "device/detect/detect_nvidia.h"

namespace sluice::device {

namespace {

constexpr unsigned kAmd = 0x1002, kIntel = 0x8086;

constexpr auto kDescribe = std::chrono::seconds(2);  // for new GPUs to describe themselves
constexpr auto kTryAgain = std::chrono::minutes(1);  // a driver that did not start

}  // namespace

bool Search::open() {
  const CallScope scope(calls_);
  open_nvidia();
  if (options_.demo.empty()) open_sysfs();
  if (nvml()) look_nvidia();
  {
    const std::lock_guard lock(mutex_);
    is_looking_ = false;
  }
  send_found();
  return nvml() != nullptr || !workers().empty();
}

void Search::look() {
  const CallScope scope(calls_);
  if (!nvml() && is_driver_down() && Steady::now() >= try_again_) {
    open_nvidia();
    send_found();
  }
  if (nvml()) look_nvidia();
  if (!has_sent_all()) send_found();
}

bool Search::has_sent_all() const {
  const std::lock_guard lock(mutex_);
  return has_sent_all_;
}

bool Search::is_driver_down() const {
  const std::lock_guard lock(mutex_);
  return !driver_trouble_.empty();
}

void Search::open_nvidia() {
  try {
    std::shared_ptr<const Nvml> opened =
        options_.demo.empty() ? Nvml::open()
                              : open_demo(options_.demo, {options_.demo_epoch_ns, ""});
    const std::lock_guard lock(mutex_);
    nvml_ = std::move(opened);
    std::erase(notes_, std::exchange(driver_trouble_, {}));
  } catch (const Error& e) {
    const auto why = std::string("NVIDIA: ") + std::string(e.reason());
    const bool fault = !options_.demo.empty() || has_nvidia_driver();
    const std::lock_guard lock(mutex_);
    if (!driver_trouble_.empty()) std::erase(notes_, driver_trouble_);
    notes_.push_back(why);
    driver_trouble_ = fault ? why : "";
    try_again_ = Steady::now() + kTryAgain;
  }
}

void Search::open_sysfs() {
  const auto add = [this](Found found, unsigned vendor) {
    const auto cards = drm_cards("/", vendor);
    for (auto& gpu : found.gpus) {
      const auto card = std::ranges::find(cards, gpu.bus, &DrmCard::bus);
      if (card == cards.end()) continue;
      const auto uuid = gpu.uuid;
      const std::lock_guard lock(mutex_);
      add_worker(uuid, make_sysfs_probe(std::move(gpu), *card));
    }
    for (auto& text : found.notes) note(std::move(text));
  };
  add(detect_amd(), kAmd);
  add(detect_intel(), kIntel);
}

void Search::look_nvidia() {
  const auto library = nvml();
  {
    const std::lock_guard lock(mutex_);
    is_looking_ = true;
  }
  const auto count = library->count();
  std::set<std::string> seen;
  std::vector<std::string> mute;
  if (!count)
    mute.push_back(fmt::format("NVIDIA: cannot list GPUs: {}", nvml::describe(count.code)));
  for (unsigned i = 0; count && i < count.value; ++i) {
    const auto device = library->by_index(i);
    const auto uuid = device ? library->uuid(device.value) : Answer<std::string>{device.code, {}};
    if (uuid) {
      seen.insert(uuid.value);
      if (const auto code = found_nvidia(uuid.value, device.value); code != nvml::Return::success)
        mute.push_back(fmt::format("NVIDIA: {} is listed but does not answer: {}", uuid.value,
                                   nvml::describe(code)));
    } else {
      mute.push_back(fmt::format("NVIDIA: GPU {} of {} does not answer: {}", i + 1, count.value,
                                 nvml::describe(uuid.code)));
    }
  }
  if (count) lose_all_but(seen);
  bool changed = false;
  {
    const std::lock_guard lock(mutex_);
    changed = std::exchange(mute_, mute) != mute;
    is_looking_ = false;
  }
  if (changed) send_found();
}

void Search::lose_all_but(const std::set<std::string>& seen) {
  std::vector<std::shared_ptr<Worker>> missing;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [uuid, device] : handles_)
      if (!seen.contains(uuid)) missing.push_back(workers_.at(uuid));
  }
  for (const auto& worker : missing) worker->lose("the driver no longer lists it");
}

// Starts a worker for a new GPU and gives one that was gone back to its worker,
// when it answers: a handle alone says nothing.
nvml::Return Search::found_nvidia(const std::string& uuid, nvml::Device device) {
  const auto library = nvml();
  {
    const std::lock_guard lock(mutex_);
    const auto known = workers_.find(uuid);
    if (known != workers_.end() && !known->second->is_gone()) return nvml::Return::success;
  }
  // No lock here: this call may hang.
  if (const auto code = library->memory(device).code; code == nvml::Return::gpu_is_lost)
    return code;

  auto probe = make_nvidia_probe(
      *library, device,
      options_.demo.empty() ? Enrich(enrich_from_proc) : enrich_from_demo(*library));
  const std::lock_guard lock(mutex_);
  handles_[uuid] = device;
  if (const auto known = workers_.find(uuid); known != workers_.end())
    known->second->revive(std::move(probe));
  else
    add_worker(uuid, std::move(probe));
  ++generation_;
  return nvml::Return::success;
}

void Search::add_worker(const std::string& uuid, std::unique_ptr<Probe> probe) {
  auto worker = std::make_shared<Worker>(uuid, std::move(probe), out_, *this);
  const auto followed = follow_.gpus.find(uuid);
  if (followed != follow_.gpus.end()) worker->follow(followed->second);
  workers_.emplace(uuid, std::move(worker));
  all_by_ = Steady::now() + kDescribe;
}

void Search::described(Gpu gpu) {
  {
    const std::lock_guard lock(mutex_);
    described_.insert_or_assign(gpu.uuid, std::move(gpu));
  }
  send_found();
}

void Search::send_found() {
  Found found;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [uuid, gpu] : described_) found.gpus.push_back(gpu);
    found.notes = notes_;
    found.notes.insert(found.notes.end(), mute_.begin(), mute_.end());
    found.driver_trouble = driver_trouble_;
    found.has_all =
        !is_looking_ && (described_.size() >= workers_.size() || Steady::now() >= all_by_);
    has_sent_all_ = found.has_all;
  }
  out_.send(found);
}

void Search::note(std::string text) {
  const std::lock_guard lock(mutex_);
  notes_.push_back(std::move(text));
}

End Search::nothing() const {
  const std::lock_guard lock(mutex_);
  std::string all;
  for (const auto& text : notes_) all += (all.empty() ? "" : "; ") + text;
  return {all.empty() ? "no GPU found" : all, !driver_trouble_.empty()};
}

void Search::set_intervals(const SamplingIntervals& intervals) {
  {
    const std::lock_guard lock(mutex_);
    intervals_.base = intervals;
  }
  for (const auto& worker : workers()) worker->sample_now();
}

void Search::follow(const Follow& follow) {
  const std::lock_guard lock(mutex_);
  follow_ = follow;
  for (const auto& [uuid, worker] : workers_) {
    const auto found = follow.gpus.find(uuid);
    worker->follow(found == follow.gpus.end() ? std::nullopt : std::optional(found->second));
  }
}

void Search::set_interval_scale(double interval_scale) {
  const std::lock_guard lock(mutex_);
  intervals_.scale = interval_scale;
}

ScaledIntervals Search::intervals() const {
  const std::lock_guard lock(mutex_);
  return intervals_;
}

std::shared_ptr<const Nvml> Search::nvml() const {
  const std::lock_guard lock(mutex_);
  return nvml_;
}

std::vector<std::shared_ptr<Worker>> Search::workers() const {
  std::vector<std::shared_ptr<Worker>> all;
  const std::lock_guard lock(mutex_);
  for (const auto& [uuid, worker] : workers_) all.push_back(worker);
  return all;
}

std::map<std::string, nvml::Device> Search::handles() const {
  const std::lock_guard lock(mutex_);
  auto good = handles_;
  std::erase_if(good, [this](const auto& handle) { return workers_.at(handle.first)->is_gone(); });
  return good;
}

bool Search::any_missing() const {
  {
    const std::lock_guard lock(mutex_);
    if (!mute_.empty()) return true;
  }
  return std::ranges::any_of(workers(), [](const auto& worker) { return worker->is_gone(); });
}

}  // namespace sluice::device

// The sampler's search for GPUs: opens the drivers' libraries, starts a worker for
// each GPU found and looks again every few seconds, because GPUs come and go.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "device/sampler/sampler.h"
#include "device/sampler/sampler_worker.h"

namespace sluice::device {

// All methods are thread-safe except run() and open(), which belong to one thread.
class Search final : public Worker::Listener {
 public:
  Search(const SamplerOptions& options, MessageWriter& out) : options_(options), out_(out) {}

  // Finds drivers and their first GPUs. False when there is nothing to watch.
  bool open();
  void look();  // again

  void set_intervals(const SamplingIntervals& intervals);
  void follow(const Follow& follow);
  void set_interval_scale(double interval_scale);
  ScaledIntervals intervals() const override;

  const CallWatch& calls() const noexcept { return calls_; }
  std::shared_ptr<const Nvml> nvml() const;  // null without an NVIDIA driver
  std::vector<std::shared_ptr<Worker>> workers() const;
  bool any_missing() const;   // gone, or listed without an answer
  bool has_sent_all() const;  // the list that was sent last has every GPU found so far
  End nothing() const;        // why there is nothing to watch
  std::uint64_t generation() const noexcept { return generation_; }  // grows when GPUs come or go
  // The handles that are good now, by uuid: none of a GPU that is gone.
  std::map<std::string, nvml::Device> handles() const;

 private:
  void described(Gpu gpu) override;
  void lost() noexcept override { ++generation_; }
  bool is_driver_down() const;
  void open_nvidia();
  void open_sysfs();
  void look_nvidia();
  void lose_all_but(const std::set<std::string>& seen);
  nvml::Return found_nvidia(const std::string& uuid, nvml::Device device);
  void add_worker(const std::string& uuid, std::unique_ptr<Probe> probe);  // under the lock
  void note(std::string text);
  void send_found();

  const SamplerOptions options_;
  MessageWriter& out_;
  CallWatch calls_;
  std::atomic<std::uint64_t> generation_{0};
  Instant try_again_{};       // when to open the driver that did not start
  mutable std::mutex mutex_;  // for all that follows
  ScaledIntervals intervals_;
  Follow follow_;
  std::shared_ptr<const Nvml> nvml_;  // shared: threads that hang in it may outlive the search
  std::map<std::string, nvml::Device> handles_;
  std::map<std::string, Gpu> described_;
  bool is_looking_ = true;  // there may be more GPUs than workers
  Instant all_by_{};        // a GPU that has not described itself by then is not waited for
  bool has_sent_all_ = false;
  std::vector<std::string> notes_;
  std::string driver_trouble_;     // why the NVIDIA driver that is here does not start
  std::vector<std::string> mute_;  // notes on GPUs that did not answer when last looked for
  // Last, so that it is destroyed first: the threads that it joins use all of the above.
  std::map<std::string, std::shared_ptr<Worker>> workers_;
};

}  // namespace sluice::device

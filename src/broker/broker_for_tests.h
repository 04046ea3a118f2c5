// A machine for the broker's tests: GPUs, their processes and a clock, all set by hand.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "broker/broker.h"
#include "broker/enforce/holder.h"

namespace sluice::broker {

inline constexpr std::uint64_t kGb = std::uint64_t{1} << 30;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "sluice-broker-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path;
};

class Host {
 public:
  // One GPU for each number, of so many GB; all of a card may be promised.
  explicit Host(const std::vector<int>& sizes_gb) {
    for (std::size_t i = 0; i < sizes_gb.size(); ++i) {
      watch::GpuView g;
      g.gpu.vendor = device::Vendor::nvidia;
      g.gpu.uuid = "GPU-" + std::to_string(i);
      g.gpu.bus = "0000:0" + std::to_string(i) + ":00.0";
      g.gpu.name = "Test " + std::to_string(sizes_gb[i]);
      g.gpu.memory_total = kGb * static_cast<std::uint64_t>(sizes_gb[i]);
      snapshot.gpus.push_back(g);
      used.push_back(0);
    }
    options.threads = false;
    options.gpu.memory_fraction = 1;
    options.now = [this] { return now(); };
    options.wall = [this] { return wall(); };
  }

  Instant now() const { return Instant(std::chrono::hours(1)) + ms(passed_ms); }
  WallTime wall() const { return WallTime(std::chrono::hours(500000)) + ms(passed_ms); }
  // Of the first lease of a broker that begins now.
  LeaseId first_id() const { return static_cast<LeaseId>(unix_ms(wall())) * 1000 + 1; }
  void pass(double s) { passed_ms += static_cast<std::int64_t>(s * 1000); }

  // A fresh sample of every GPU, as it is now.
  const watch::Snapshot& sample() {
    ++snapshot.sequence;
    snapshot.at = now(), snapshot.wall = wall();
    for (std::size_t i = 0; i < used.size(); ++i) {
      auto& r = snapshot.gpus[i].readings;
      r.set(device::Metric::memory_used, static_cast<double>(used[i]), now());
      r.processes_at = now();
      snapshot.gpus[i].sampled_at = now();
    }
    return snapshot;
  }
  // A process with memory on a GPU; it is physically used as well.
  void run(std::size_t gpu, std::int64_t pid, std::uint64_t bytes, std::string kind = "compute") {
    snapshot.gpus[gpu].readings.processes.push_back(
        {pid, "job", "user", std::move(kind), bytes, std::nullopt, std::nullopt});
    used[gpu] += bytes;
  }
  void stop_all(std::size_t gpu) {
    snapshot.gpus[gpu].readings.processes.clear();
    used[gpu] = 0;
  }

  Broker::Options options;
  watch::Snapshot snapshot;
  std::vector<std::uint64_t> used;

 private:
  static std::chrono::milliseconds ms(std::int64_t n) { return std::chrono::milliseconds(n); }
  std::atomic<std::int64_t> passed_ms{0};
};

inline LeaseRequest lease_request(const std::string& agent, double gb,
                                  OnUnavailable on_unavailable = OnUnavailable::fail) {
  LeaseRequest w;
  w.agent = agent;
  w.bytes = static_cast<std::uint64_t>(gb * static_cast<double>(kGb));
  w.on_unavailable = on_unavailable;
  return w;
}

}  // namespace sluice::broker

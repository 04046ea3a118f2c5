// Settings that `tune` changed on the fake GPUs; kept in a file when one is named, so that
// the next process sees it as it would on a real card.
#pragma once

#include <cstdint>
#include <ctime>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace sluice::fake {

struct Settings {
  std::optional<bool> persistence;
  std::optional<double> power_limit_w;
  std::optional<std::pair<unsigned, unsigned>> sm_lock, memory_lock;  // MHz, lowest and highest
  std::optional<std::pair<unsigned, unsigned>> application_clocks;    // memory, SM
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> memory_limits;  // soft, hard
};

// Thread-safe.
class SettingsStore {
 public:
  explicit SettingsStore(std::string file) : file_(std::move(file)) {}

  Settings of(const std::string& uuid);
  // Answers whether it could be stored.
  bool set(const std::string& uuid, const Settings& settings);

 private:
  void reload();
  bool save() const;

  std::string file_;  // empty: only in memory
  std::mutex mutex_;
  timespec read_at_{};
  std::map<std::string, Settings> by_uuid_;
};

}  // namespace sluice::fake

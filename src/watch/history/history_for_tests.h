// Feeding a History from tests, with chosen times.
#pragma once

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "watch/history/history.h"

namespace sluice::watch {

inline constexpr std::int64_t kEpoch = 1'794'711'600;  // a multiple of every step

template <class Number>
WallTime wall_at(Number second) {
  return WallTime(
      std::chrono::duration_cast<WallTime::duration>(Seconds(static_cast<double>(second))));
}

// Gives a history one value at a wall time. Each call is a later instant.
class Feeder {
 public:
  explicit Feeder(History& history) : history_(history) {}

  template <class Number>
  void put(const std::string& device, device::Metric metric, Number second, double value) {
    now_ += std::chrono::milliseconds(1);
    device::Readings readings;
    readings.set(metric, value, now_);
    history_.add(device, readings, now_, wall_at(second));
  }

 private:
  History& history_;
  Instant now_ = Steady::now();
};

inline HistoryQuery ask(const std::string& device, const std::string& metric, std::int64_t from,
                        std::int64_t to, int points = 600) {
  return {device, {metric}, from * 1000, to * 1000, points};
}

// A folder that is gone at the end.
class Folder {
 public:
  Folder() : path_(make()) {}
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const noexcept { return path_; }

 private:
  static std::string make() {
    std::string path = (std::filesystem::temp_directory_path() / "sluice-history-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("mkdtemp " + path);
    return path;
  }
  std::string path_;
};

}  // namespace sluice::watch

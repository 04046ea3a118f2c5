// Readings that are not yet stored. Adding is a handful of comparisons per
// value: the rows of the current steps are dense arrays, one per metric.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "device/reading.h"
#include "watch/history/history_row.h"

namespace sluice::watch {

// Not thread-safe.
class Pending {
 public:
  explicit Pending(std::size_t max_rows) : max_rows_(max_rows) {}

  // See History::add. Returns how many values were new.
  std::size_t add(std::string_view device, const device::Readings& readings, Instant now,
                  WallTime wall);

  // Everything, in order of time per resolution; what comes later adds to it.
  std::vector<Row> take();

  // Copies of the rows of one device and resolution with from <= t <= to.
  void collect(std::string_view device, std::size_t resolution, std::int64_t from, std::int64_t to,
               std::vector<Row>& rows) const;

  std::vector<std::string> devices() const;
  std::size_t rows() const noexcept;
  std::uint64_t dropped() const noexcept { return dropped_; }  // values, since the start

 private:
  struct OpenRow {
    std::int64_t t = -1;
    std::bitset<device::kMetricCount> has;
    std::array<Agg, device::kMetricCount> aggs;
  };
  struct Device {
    std::string name;
    std::array<Instant, device::kMetricCount> newest;
    // Two per resolution, by the parity of the step's number: readings of one moment may
    // fall on both sides of a boundary.
    std::array<std::array<OpenRow, 2>, kResolutions.size()> open;
  };

  static Row closed(const Device& device, std::size_t resolution, const OpenRow& open);
  void add_value(Device& device, std::size_t metric, std::int64_t second, double value);
  void close(Device& device, std::size_t resolution, OpenRow& open);

  std::size_t max_rows_;
  std::uint64_t dropped_ = 0;
  std::map<std::string, Device, std::less<>> devices_;
  std::array<std::deque<Row>, kResolutions.size()> closed_;
};

}  // namespace sluice::watch

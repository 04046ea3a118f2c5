#include "watch/history/history_pending.h"

#include <cmath>

namespace sluice::watch {

std::size_t Pending::add(std::string_view device, const device::Readings& readings, Instant now,
                         WallTime wall) {
  auto it = devices_.find(device);
  if (it == devices_.end()) {
    it = devices_.try_emplace(std::string(device)).first;
    it->second.name = device;
    it->second.newest.fill(Instant::min());
  }
  Device& d = it->second;
  std::size_t added = 0;
  for (std::size_t m = 0; m < device::kMetricCount; ++m) {
    const auto& reading = readings.at(static_cast<device::Metric>(m));
    if (!reading || reading->at <= d.newest[m] || !std::isfinite(reading->value)) continue;
    d.newest[m] = reading->at;
    const auto taken = wall - std::chrono::duration_cast<WallTime::duration>(now - reading->at);
    const auto second = std::chrono::floor<std::chrono::seconds>(taken.time_since_epoch()).count();
    if (second < 0) continue;
    add_value(d, m, second, reading->value);
    ++added;
  }
  return added;
}

void Pending::add_value(Device& d, std::size_t metric, std::int64_t second, double value) {
  for (std::size_t s = 0; s < kResolutions.size(); ++s) {
    const std::int64_t number = second / kResolutions[s].seconds;
    OpenRow& row = d.open[s][static_cast<std::size_t>(number & 1)];
    const std::int64_t t = number * kResolutions[s].seconds;
    if (row.t != t) {
      close(d, s, row);
      row.t = t;
    }
    if (!row.has[metric]) row.has.set(metric), row.aggs[metric] = {};
    row.aggs[metric].add(value);
  }
}

Row Pending::closed(const Device& device, std::size_t resolution, const OpenRow& open) {
  Row row{device.name, resolution, open.t, {}};
  row.entries.reserve(open.has.count());
  for (std::size_t m = 0; m < device::kMetricCount; ++m)
    if (open.has[m]) row.entries.push_back({static_cast<std::uint32_t>(m), open.aggs[m]});
  return row;
}

void Pending::close(Device& device, std::size_t resolution, OpenRow& open) {
  if (open.has.none()) return;
  closed_[resolution].push_back(closed(device, resolution, open));
  open.has.reset();
  if (closed_[resolution].size() <= max_rows_) return;
  dropped_ += closed_[resolution].front().entries.size();
  closed_[resolution].pop_front();
}

std::vector<Row> Pending::take() {
  std::vector<Row> all;
  for (auto& rows : closed_) {
    for (auto& row : rows) all.push_back(std::move(row));
    rows.clear();
  }
  for (auto& [name, device] : devices_)
    for (std::size_t s = 0; s < kResolutions.size(); ++s)
      for (auto& open : device.open[s]) {
        if (open.has.any()) all.push_back(closed(device, s, open));
        open.has.reset();
      }
  return all;
}

void Pending::collect(std::string_view device, std::size_t resolution, std::int64_t from,
                      std::int64_t to, std::vector<Row>& rows) const {
  for (const auto& row : closed_[resolution])
    if (row.t >= from && row.t <= to && row.device == device) rows.push_back(row);
  const auto it = devices_.find(device);
  if (it == devices_.end()) return;
  for (const auto& open : it->second.open[resolution])
    if (open.has.any() && open.t >= from && open.t <= to)
      rows.push_back(closed(it->second, resolution, open));
}

std::vector<std::string> Pending::devices() const {
  std::vector<std::string> names;
  for (const auto& [name, device] : devices_) names.push_back(name);
  return names;
}

std::size_t Pending::rows() const noexcept {
  std::size_t n = 0;
  for (const auto& rows : closed_) n += rows.size();
  return n;
}

}  // namespace sluice::watch

// History in one SQLite database, on disk or in memory. Not thread-safe: on disk
// one object writes and another one reads, each with its own connection.
// Everything may throw what sqlite.h says.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/sqlite/sqlite.h"
#include "device/metric.h"
#include "watch/history/history_row.h"

namespace sluice::watch {

class HistoryStore {
 public:
  static constexpr int kVersion = 1;

  // Creates or upgrades the file at `path` (":memory:" for none), at most
  // `max_bytes` long. Throws invalid_argument when a newer version of this program
  // or another program made it.
  static HistoryStore writer(const std::string& path, std::uint64_t max_bytes);
  static HistoryStore reader(const std::string& path);  // of a file that writer() opened

  // In one transaction: adds the rows to what is there and remembers the number.
  void write(const Batch& batch);

  // Deletes rows that are older than their resolution keeps.
  void expire(std::int64_t now_s);

  // Appends the rows with from <= t <= to; returns the number of the newest batch
  // that is part of them.
  std::int64_t read(std::string_view device, std::size_t resolution, std::int64_t from,
                    std::int64_t to, std::vector<Row>& rows);

  std::int64_t last_batch();
  std::vector<std::string> devices();
  std::optional<std::string> kept(std::string_view key);

  // Empty when the file is sound. Reads all of it.
  std::string damage();

  // All there is as one batch with this number, and removes it: to move a history
  // from memory to disk.
  Batch everything(std::int64_t number);
  void clear();

 private:
  HistoryStore(const std::string& path, bool read_only) : db_(path, read_only) {}
  void prepare_file(std::uint64_t max_bytes);
  void upgrade();
  void load_metrics();
  std::int64_t device_id(std::string_view name, bool create);
  void merge_row(Statement& select, Statement& upsert, const Row& row);
  Row to_row(std::string device, std::size_t resolution, const Statement& s, int t, int data) const;

  Database db_;
  std::array<std::int64_t, device::kMetricCount> file_id_{};  // by Metric
  std::map<std::int64_t, std::uint32_t> metric_of_;           // by the file's id
};

}  // namespace sluice::watch

// Stores readings for 90 days: 1 s steps for an hour, 10 s for a day,
// 5 min for 90 days, each with minimum, mean and maximum. In SQLite, or in memory.
//
// add() only accumulates; a thread of its own writes. A slow disk therefore never
// stalls the caller: what is waiting is bounded and what had to be dropped is
// counted. When the file cannot be written (disk full, read-only folder) the
// history continues in memory, reports it in trouble() and in the log, and is moved to
// the file once that works again. docs/history.md has the file's format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "device/reading.h"
#include "watch/snapshot.h"
#include "watch/trend.h"

namespace sluice::watch {

struct HistoryQuery {
  std::string device;  // uuid, "cpu" or "server"
  std::vector<std::string> metrics;
  std::int64_t from_ms = 0, to_ms = 0;  // wall time
  int points = 600;                     // at most this many; the step is chosen from it
};

struct HistoryOptions {
  std::string path;     // "…/history.db"; empty keeps everything in memory
  double flush_s = 5;   // a crash loses at most this much
  double retry_s = 30;  // after a failed write
  std::uint64_t max_bytes = std::uint64_t{2} << 30;  // the file never grows past this
  std::size_t pending_rows = 20000;  // per resolution; one row is one device at one time
};

struct HistoryStats {
  std::string where;          // the path, or "memory"
  std::string trouble;        // why the file is not written; empty when all is well
  std::uint64_t samples = 0;  // taken in
  std::uint64_t dropped = 0;  // values lost because writing was too slow
  std::uint64_t flushes = 0, failures = 0;
  std::uint64_t file_bytes = 0;
  std::size_t pending_rows = 0;
};

// Thread-safe.
class History {
 public:
  // A file that is corrupt or of a newer version is moved aside, with a line in
  // the log; a file in use by another process, or that cannot be made, means
  // memory only. Never throws for any of these.
  explicit History(HistoryOptions options);
  ~History();  // writes what is waiting

  // Takes every value in `readings` that is newer than the one taken before, so
  // that it may be called with the same readings again. `now` and `wall` are one
  // moment on the two clocks; non-finite values are left out.
  void add(std::string_view device, const device::Readings& readings, Instant now, WallTime wall);

  // {"device", "step_s", "from_ms", "to_ms",
  //  "metrics": {"power": {"unit", "t": [ms…], "mean": […], "min": […], "max": […]}}}
  // The finest step that reaches back to `from` and gives at most `points` points.
  // `t` is the start of a step. Where values are missing for longer than usual
  // there is one entry with null for mean, min and max, so that a line breaks.
  // No metrics named means all that have values; a named one without values is
  // there with empty lists. Throws invalid_argument (unknown metric, from after
  // to, points outside 1..100000) and not_found (a device never seen).
  Json query(const HistoryQuery& query, WallTime now) const;

  // Means of one metric over the last `seconds`, at most `points` of them, for
  // trends. Empty for what was never seen.
  std::vector<Point> series(std::string_view device, device::Metric metric, WallTime now,
                            double seconds, int points = 240) const;

  std::vector<std::string> devices() const;

  // Small documents that survive a restart with the file (silences, for example).
  // keep() only queues the write.
  void keep(const std::string& key, std::string value);
  std::optional<std::string> kept(const std::string& key) const;

  HistoryStats stats() const;
  std::string trouble() const;  // stats().trouble, without looking at the file

  // Waits until everything added before is stored, or `limit_s` passed. For tests
  // and for an orderly stop.
  bool flush(double limit_s = 5);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

Json to_json(const HistoryStats& stats);

// {"<device>": [{"metric", "kind", "text", …}]}: what is growing, falling or has
// jumped within the last hour, for every device of the snapshot.
Json trends_json(const History& history, const Snapshot& snapshot);

}  // namespace sluice::watch

// Slope and level shifts of a series. Pure functions over points in
// time order; gaps and uneven spacing are fine, values must be finite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace sluice::watch {

struct Point {
  double t;  // seconds
  double value;
};

struct Slope {
  double per_s;      // Theil-Sen: the median of slopes between pairs, so outliers do not bend it
  double low, high;  // 95 % confidence
  double level;      // of the line at the last point
  bool significant;  // the interval excludes zero
};

// Returns nothing for fewer than 8 points or no extent in time. Long series are thinned
// evenly to 256 points first: O(n^2).
std::optional<Slope> slope(std::span<const Point> series);

struct Shift {
  double at;             // time of the first point of the new level
  double before, after;  // medians
  double percent;        // change relative to before; 0 when before is 0
};

// The one clearest jump between two steady levels, or nothing. A jump counts
// when the medians differ by more than 4 times the noise (median absolute
// deviation around each level) and a straight line explains the series worse.
std::optional<Shift> level_shift(std::span<const Point> series);

double median(std::vector<double> values);  // of at least one

// The baseline of the last hour: the median of 10 s means, without the
// most recent minute, so that a fall is not its own reference. A new level that
// stays becomes the norm in about half an hour.
class Baseline {
 public:
  void add(double t, double value);
  // Returns nothing before five minutes of values.
  std::optional<double> reference(double now) const;

 private:
  struct Bucket {
    double t, sum;
    int n;
  };
  std::deque<Bucket> buckets_;
};

// One sentence-worthy fact about a metric of a device.
struct Trend {
  std::string metric, unit;
  std::string kind;                  // "growing", "falling", "jumped", "dropped"
  double per_hour = 0;               // for slopes
  std::optional<double> limit_in_s;  // until `limit` at this rate
  std::optional<double> limit;
  std::optional<Shift> shift;  // for jumps
  std::string text;            // "memory_used grows 1.2 GiB/h: full at 140.4 GiB in 3 h 0 min"
};

// `limit` is the value at which a growing series ends ("full") or none. A slope
// is worth a mention when it is significant, lasts five minutes and, over the series' own
// length, moves by at least 2 % of the limit or 5 % of the level.
std::vector<Trend> trends_of(std::string_view metric, std::string_view unit,
                             std::span<const Point> series, std::optional<double> limit);

Json to_json(const Trend& trend);

}  // namespace sluice::watch

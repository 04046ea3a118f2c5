// Whether a figure grows: samples of the last while and the line through them.
#pragma once

#include <deque>
#include <optional>

namespace sluice::memory {

struct Line {
  double per_s;      // slope
  double explained;  // share of the variation, 0..1
  double over_s;     // time between the first and the last sample
};

class GrowthWindow {
 public:
  explicit GrowthWindow(double window_s) : window_s_(window_s) {}

  // Samples nearer than a 120th of the window to the last one are passed over.
  void add(double t, double value);
  std::optional<Line> line() const;  // once the samples fill half the window

 private:
  struct Sample {
    double t, value;
  };
  double window_s_;
  std::deque<Sample> samples_;
};

}  // namespace sluice::memory

// Decides whether a figure grows, by a line through the samples of a time window.
#pragma once

#include <cstddef>
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

  // The slope of the line when it shows continuing growth: it explains at least 80 %
  // of the variation, which one jump between two levels (75 %) does not, and the newest
  // quarter rises too, by at least a third of it, which a program that has finished loading
  // does not. Of growth that is `known` the newer half is enough: memory often grows in steps.
  // Else 0, or the slope of what falls. Nothing before there is a line.
  std::optional<double> growth_per_s(bool known) const;

  // When the present level was left: the last sample that is not above the oldest. For a
  // window with samples.
  double since() const;

 private:
  struct Sample {
    double t, value;
  };
  Line fit(std::size_t from) const;  // through the samples from this one on

  double window_s_;
  std::deque<Sample> samples_;
};

}  // namespace sluice::memory

#include "memory/growth.h"

namespace sluice::memory {

void GrowthWindow::add(double t, double value) {
  if (!samples_.empty() && t - samples_.back().t < window_s_ / 120) return;
  samples_.push_back({t, value});
  while (t - samples_.front().t > window_s_) samples_.pop_front();
}

std::optional<Line> GrowthWindow::line() const {
  if (samples_.size() < 8) return std::nullopt;
  const double over = samples_.back().t - samples_.front().t;
  if (over < window_s_ / 2) return std::nullopt;
  const auto n = static_cast<double>(samples_.size());
  double mean_t = 0, mean_value = 0;
  for (const Sample& s : samples_) mean_t += s.t / n, mean_value += s.value / n;
  double tt = 0, tv = 0, vv = 0;
  for (const Sample& s : samples_) {
    const double dt = s.t - mean_t, dv = s.value - mean_value;
    tt += dt * dt, tv += dt * dv, vv += dv * dv;
  }
  return Line{tv / tt, vv == 0 ? 0 : tv * tv / (tt * vv), over};
}

}  // namespace sluice::memory

// A value over time, as a scenario writes it: a pure function of seconds, so that
// two processes with the same start see the same numbers.
//
//   70
//   {"sine": {"mean": 60, "amplitude": 30, "period_s": 40, "phase_s": 5}}
//   {"ramp": {"from": 0, "to": 95, "over_s": 30}}                 holds at the end
//   {"steps": [[0, 5], [10, 90], [25, 40]], "every_s": 60}        holds, or repeats
//   any object of these with "noise": 3 and "seed": 7             plus or minus 3
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "reader.h"

namespace sluice::fake {

class Curve {
 public:
  static Curve constant(double value);
  static Curve parse(const Json& json, const std::string& where);  // throws as reader.h does

  double at(double t_s) const;

 private:
  enum class Kind { constant, sine, ramp, steps };
  void parse_shape(Object& in);
  double shape_at(double t_s) const;

  Kind kind_ = Kind::constant;
  double base_ = 0;      // constant value, sine mean, ramp start
  double span_ = 0;      // sine amplitude, ramp end
  double period_s_ = 0;  // sine period, ramp length, steps repeat (0 never)
  double phase_s_ = 0;
  std::vector<std::pair<double, double>> steps_;
  double noise_ = 0;
  std::uint64_t seed_ = 1;
};

}  // namespace sluice::fake

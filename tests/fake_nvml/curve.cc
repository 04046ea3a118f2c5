#include "curve.h"

#include <cmath>
#include <numbers>

namespace sluice::fake {

namespace {

constexpr double kHuge = 1e15;

// -1 to 1, the same for the same seed and step (splitmix64's finish).
double hashed(std::uint64_t seed, std::uint64_t step) {
  std::uint64_t z = seed * 0x9e3779b97f4a7c15u + step;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) / static_cast<double>(std::uint64_t{1} << 52) - 1;
}

double noise_at(std::uint64_t seed, double t_s) {
  const double step = std::floor(t_s * 2), within = t_s * 2 - step;
  const auto n = static_cast<std::uint64_t>(static_cast<std::int64_t>(step));
  return hashed(seed, n) * (1 - within) + hashed(seed, n + 1) * within;
}

}  // namespace

Curve Curve::constant(double value) {
  Curve c;
  c.base_ = value;
  return c;
}

Curve Curve::parse(const Json& json, const std::string& where) {
  if (json.is_number()) return constant(json.get<double>());
  Object in(json, where);
  Curve c;
  c.parse_shape(in);
  c.noise_ = in.number("noise", 0, 0, kHuge);
  c.seed_ = static_cast<std::uint64_t>(in.integer("seed", 1, 0, 1'000'000'000));
  in.finish();
  return c;
}

void Curve::parse_shape(Object& in) {
  const int shapes = in.has("constant") + in.has("sine") + in.has("ramp") + in.has("steps");
  if (shapes != 1) complain(in.where(), "needs exactly one of constant, sine, ramp, steps");
  if (const Json* sine = in.find("sine")) {
    Object o(*sine, in.where("sine"));
    kind_ = Kind::sine;
    base_ = o.number("mean", 0, -kHuge, kHuge);
    span_ = o.number("amplitude", 0, 0, kHuge);
    period_s_ = o.number("period_s", 60, 0.01, 1e7);
    phase_s_ = o.number("phase_s", 0, -1e7, 1e7);
    o.finish();
  } else if (const Json* ramp = in.find("ramp")) {
    Object o(*ramp, in.where("ramp"));
    kind_ = Kind::ramp;
    base_ = o.number("from", 0, -kHuge, kHuge);
    span_ = o.number("to", 0, -kHuge, kHuge);
    period_s_ = o.number("over_s", 60, 0.01, 1e7);
    phase_s_ = o.number("after_s", 0, 0, 1e7);
    o.finish();
  } else if (const Json* steps = in.find("steps")) {
    kind_ = Kind::steps;
    period_s_ = in.number("every_s", 0, 0, 1e7);
    if (!steps->is_array() || steps->empty()) complain(in.where("steps"), "needs [[t, value], …]");
    for (const Json& step : *steps) {
      if (!step.is_array() || step.size() != 2 || !step[0].is_number() || !step[1].is_number())
        complain(in.where("steps"), "each step is [t, value]");
      if (!steps_.empty() && step[0].get<double>() <= steps_.back().first)
        complain(in.where("steps"), "times must grow");
      steps_.emplace_back(step[0].get<double>(), step[1].get<double>());
    }
  } else {
    base_ = in.number("constant", 0, -kHuge, kHuge);
  }
}

double Curve::shape_at(double t_s) const {
  switch (kind_) {
    case Kind::constant: return base_;
    case Kind::sine:
      return base_ + span_ * std::sin(2 * std::numbers::pi * (t_s + phase_s_) / period_s_);
    case Kind::ramp: {
      const double done = std::fmin(1, std::fmax(0, (t_s - phase_s_) / period_s_));
      return base_ + (span_ - base_) * done;
    }
    case Kind::steps: break;
  }
  const double t = period_s_ > 0 ? std::fmod(t_s, period_s_) : t_s;
  double value = steps_.front().second;
  for (const auto& [from, v] : steps_)
    if (t >= from) value = v;
  return value;
}

double Curve::at(double t_s) const {
  const double value = shape_at(t_s);
  return noise_ > 0 ? value + noise_ * noise_at(seed_, t_s) : value;
}

}  // namespace sluice::fake

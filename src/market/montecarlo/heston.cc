#include "market/montecarlo/heston.h"

#include <fmt/format.h>

#include <cmath>
#include <complex>
#include <numbers>

#include "base/cancellation.h"
#include "base/error.h"
#include "market/input/require.h"

namespace sluice::market {
namespace {

using Complex = std::complex<double>;

// log(1 + z) and exp(z) - 1 without cancellation at a small z.
Complex complex_log1p(Complex z) {
  const double x = z.real(), y = z.imag();
  return {0.5 * std::log1p(x * (2 + x) + y * y), std::atan2(y, 1 + x)};
}
Complex complex_expm1(Complex z) {
  const double grown = std::expm1(z.real()), s = std::sin(z.imag()), c = std::cos(z.imag());
  return {grown * c - (c > 0 ? s * s / (1 + c) : 1 - c), (1 + grown) * s};
}

// E[(S_t / forward)^(iu)]. The form whose logarithm never leaves its main branch (Albrecher
// et al. 2007), in terms that keep their digits where sigma is small against kappa.
Complex characteristic(const Heston& h, double t, Complex u) {
  const Complex i(0, 1), beta = h.kappa - h.rho * h.sigma * i * u, q = i * u + u * u;
  const double s2 = h.sigma * h.sigma;
  const Complex d = std::sqrt(beta * beta + s2 * q);
  // (beta - d) / sigma^2; beta^2 - d^2 = -sigma^2 q.
  const bool close = (beta * std::conj(d)).real() > 0;
  const Complex slope = close ? -q / (beta + d) : (beta - d) / s2;
  const Complex fall = -complex_expm1(-d * t), ratio = s2 * slope * fall / (2.0 * d);
  const Complex level = h.kappa * h.theta * (slope * t - 2.0 / s2 * complex_log1p(ratio));
  return std::exp(level - h.v0 * q * fall / (2.0 * d + s2 * slope * fall));
}

constexpr int kPoints = 16, kMaxPanels = 200000;
constexpr double kAt[] = {0.0950125098376374, 0.2816035507792589, 0.4580167776572274,
                          0.6178762444026438, 0.7554044083550030, 0.8656312023878318,
                          0.9445750230732326, 0.9894009349916499};
constexpr double kWeight[] = {0.1894506104550685, 0.1826034150449236, 0.1691565193950025,
                              0.1495959888165767, 0.1246289712555339, 0.0951585116824928,
                              0.0622535239386479, 0.0271524594117541};

double panel_width(double k) { return std::min(2.0, 4 / (std::fabs(k) + 1e-9)); }

// Integral of Re[e^(iuk) phi(u - i/2)] / (u^2 + 1/4) from 0 on: panels by Gauss and
// Legendre, each short against the oscillation, until the rest cannot count any more.
double integral(const Heston& h, double t, double k) {
  const double width = panel_width(k);
  double sum = 0;
  for (int panel = 0;; ++panel) {
    if (panel == kMaxPanels)
      throw Error(Code::invalid_argument,
                  fmt::format("Heston's integral hardly falls with t = {}, v0 = {}, kappa = {}, "
                              "theta = {}, sigma = {}, rho = {}: the price cannot be calculated",
                              t, h.v0, h.kappa, h.theta, h.sigma, h.rho));
    if (panel % 256 == 0) throw_if_cancelled();
    const double middle = (panel + 0.5) * width;
    double part = 0, greatest = 0;
    for (int j = 0; j < kPoints; ++j) {
      const double x = (j % 2 != 0 ? 1 : -1) * kAt[j / 2], u = middle + 0.5 * width * x;
      const Complex f = characteristic(h, t, Complex(u, -0.5)) / (u * u + 0.25);
      part += kWeight[j / 2] * (f * std::exp(Complex(0, u * k))).real();
      greatest = std::max(greatest, std::abs(f));
    }
    sum += 0.5 * width * part;
    if (greatest * middle < 1e-14) return sum;
  }
}

double log_forward(const HestonOption& o) {
  return std::log(o.spot / o.strike) + (o.rate - o.div_yield) * o.t;
}

void validate(const HestonOption& o) {
  require_range("spot", o.spot, 1e-30, 1e30);
  require_range("strike", o.strike, 1e-30, 1e30);
  require_range("t", o.t, 1e-6, 1000.0);
  require_range("rate", o.rate, -10.0, 10.0);
  require_range("div_yield", o.div_yield, -10.0, 10.0);
  require_range("v0", o.model.v0, 0.0, 100.0);
  require_range("kappa", o.model.kappa, 0.0, 1000.0);
  require_range("theta", o.model.theta, 0.0, 100.0);
  require_range("sigma", o.model.sigma, 1e-4, 100.0);
  require_range("rho", o.model.rho, -1.0, 1.0);
}

}  // namespace

// The integrand falls as a Gauss curve of the total variance at first, then with the exponential of
// u, or of the root of u where the correlation is 1 or -1.
double heston_panels(const HestonOption& o) {
  constexpr double kFall = 33;  // its logarithm, until the rest does not count
  const Heston& h = o.model;
  const double level = h.v0 + h.kappa * h.theta * o.t;
  const double decay = h.kappa > 1e-9 ? (1 - std::exp(-h.kappa * o.t)) / h.kappa : o.t;
  const double variance = h.theta * o.t + (h.v0 - h.theta) * decay;
  const double a = kFall * h.sigma / level;
  const double tail = std::min(a / std::sqrt(1 - h.rho * h.rho), std::max(a, a * a));
  const double end = std::max(std::sqrt(2 * kFall / variance), tail);
  const double panels = end / panel_width(log_forward(o));
  return panels < kMaxPanels ? std::max(panels, 1.0) : level > 0 ? kMaxPanels : 1;
}

double heston_price(const HestonOption& o) {
  validate(o);
  const double spot = o.spot * std::exp(-o.div_yield * o.t);
  const double strike = o.strike * std::exp(-o.rate * o.t);
  const bool still = o.model.v0 == 0 && o.model.kappa * o.model.theta == 0;  // no variance ever
  const double call = still ? std::max(0.0, spot - strike)
                            : spot - std::sqrt(spot * strike) / std::numbers::pi *
                                         integral(o.model, o.t, log_forward(o));
  return std::max(0.0, o.kind == OptionKind::call ? call : call - spot + strike);
}

}  // namespace sluice::market

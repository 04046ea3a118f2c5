#include "engine/ops/nn/rnn_cells.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace sluice::engine {
namespace {

struct Named {
  std::string_view name;
  CellActivation activation;  // with the defaults
  bool alpha, beta;           // whether the function takes it
};

constexpr float kNoDefault = 1;
constexpr Named kActivations[] = {
    {"relu", {CellActivation::Kind::relu}, false, false},
    {"tanh", {CellActivation::Kind::tanh}, false, false},
    {"sigmoid", {CellActivation::Kind::sigmoid}, false, false},
    {"affine", {CellActivation::Kind::affine, kNoDefault, 0}, true, true},
    {"leakyrelu", {CellActivation::Kind::leaky_relu, 0.01f, 0}, true, false},
    {"thresholdedrelu", {CellActivation::Kind::thresholded_relu, 1, 0}, true, false},
    {"scaledtanh", {CellActivation::Kind::scaled_tanh, kNoDefault, kNoDefault}, true, true},
    {"hardsigmoid", {CellActivation::Kind::hard_sigmoid, 0.2f, 0.5f}, true, true},
    {"elu", {CellActivation::Kind::elu, 1, 0}, true, false},
    {"softsign", {CellActivation::Kind::softsign}, false, false},
    {"softplus", {CellActivation::Kind::softplus}, false, false},
};

const Named& find_activation(std::string name) {
  std::string lower = name;
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  for (const Named& named : kActivations)
    if (named.name == lower) return named;
  throw Error(Code::invalid_argument, "activation '" + name + "' is not known");
}

template <class T>
T sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}

}  // namespace

template <class T>
T CellActivation::operator()(T x) const {
  const T a = static_cast<T>(alpha), b = static_cast<T>(beta);
  switch (kind) {
    case Kind::relu: return std::max(x, T(0));
    case Kind::tanh: return std::tanh(x);
    case Kind::sigmoid: return sigmoid(x);
    case Kind::affine: return a * x + b;
    case Kind::leaky_relu: return x < 0 ? a * x : x;
    case Kind::thresholded_relu: return x > a ? x : T(0);
    case Kind::scaled_tanh: return a * std::tanh(b * x);
    case Kind::hard_sigmoid: return std::clamp(a * x + b, T(0), T(1));
    case Kind::elu: return x < 0 ? a * std::expm1(x) : x;
    case Kind::softsign: return x / (1 + std::abs(x));
    case Kind::softplus: return std::max(x, T(0)) + std::log1p(std::exp(-std::abs(x)));
  }
  return x;
}

std::vector<CellActivation> read_activations(const Attributes& attributes,
                                             const std::vector<std::string>& defaults,
                                             std::size_t directions) {
  std::vector<std::string> names = attributes.strings("activations");
  if (names.empty())
    for (std::size_t i = 0; i < directions; ++i)
      names.insert(names.end(), defaults.begin(), defaults.end());
  require(names.size() == directions * defaults.size(),
          std::to_string(names.size()) + " activations, not " +
              std::to_string(directions * defaults.size()));
  const std::vector<float> alphas = attributes.reals("activation_alpha");
  const std::vector<float> betas = attributes.reals("activation_beta");
  std::size_t alpha = 0, beta = 0;
  std::vector<CellActivation> all;
  for (const std::string& name : names) {
    const Named& named = find_activation(name);
    CellActivation& made = all.emplace_back(named.activation);
    if (named.alpha && alpha < alphas.size()) made.alpha = alphas[alpha++];
    if (named.beta && beta < betas.size()) made.beta = betas[beta++];
  }
  return all;
}

template <class T>
T Cell<T>::clipped(T value) const {
  return clip > 0 ? std::clamp(value, -clip, clip) : value;
}

template <class T>
void Cell<T>::rnn(const T* x, const T* r, T* h) const {
  for (std::int64_t i = 0; i < hidden; ++i) h[i] = f[0](clipped(x[i] + r[i]));
}

template <class T>
void Cell<T>::lstm(const T* x, const T* r, T* h, T* c) const {
  const auto gate = [&](std::int64_t which, std::int64_t i) {
    return x[which * hidden + i] + r[which * hidden + i];
  };
  const auto peep = [&](std::int64_t which, std::int64_t i) {
    return peepholes != nullptr ? peepholes[which * hidden + i] * c[i] : T(0);
  };
  for (std::int64_t i = 0; i < hidden; ++i) {
    const T in = f[0](clipped(gate(0, i) + peep(0, i)));
    const T keep = coupled ? 1 - in : f[0](clipped(gate(2, i) + peep(2, i)));
    c[i] = keep * c[i] + in * f[1](clipped(gate(3, i)));
    const T out = f[0](clipped(gate(1, i) + peep(1, i)));
    h[i] = out * f[2](clipped(c[i]));
  }
}

template <class T>
void Cell<T>::gru_gates(const T* x, const T* r, const T* h, T* gates, T* kept) const {
  for (std::int64_t i = 0; i < 2 * hidden; ++i) gates[i] = f[0](clipped(x[i] + r[i]));
  for (std::int64_t i = 0; i < hidden; ++i) kept[i] = gates[hidden + i] * h[i];
}

template <class T>
void Cell<T>::gru_state(const T* x, const T* r, const T* gates, T* h) const {
  for (std::int64_t i = 0; i < hidden; ++i) {
    const T part = late_bias != nullptr ? gates[hidden + i] * (r[i] + late_bias[i]) : r[i];
    const T made = f[1](clipped(x[2 * hidden + i] + part));
    h[i] = (1 - gates[i]) * made + gates[i] * h[i];
  }
}

template struct Cell<float>;
template struct Cell<double>;

}  // namespace sluice::engine

// The cells of recurrent layers: one time step.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "engine/graph/attributes.h"

namespace sluice::engine {

// An activation function of a recurrent layer.
struct CellActivation {
  enum class Kind {
    relu,
    tanh,
    sigmoid,
    affine,
    leaky_relu,
    thresholded_relu,
    scaled_tanh,
    hard_sigmoid,
    elu,
    softsign,
    softplus
  } kind = Kind::tanh;
  float alpha = 0, beta = 0;

  template <class T>
  T operator()(T x) const;
};

// Reads the activations of all directions, `defaults` for each if the node has none. Alphas and
// betas are consumed in order by the functions that take them.
std::vector<CellActivation> read_activations(const Attributes& attributes,
                                             const std::vector<std::string>& defaults,
                                             std::size_t directions);

// The parameters of one direction, applied to one sequence at one time step.
template <class T>
struct Cell {
  std::int64_t hidden;
  std::array<CellActivation, 3> f{};
  T clip = 0;                    // 0: none
  bool coupled = false;          // LSTM: coupled input and forget gates
  const T* peepholes = nullptr;  // LSTM: [input, output, forget]
  const T* late_bias = nullptr;  // GRU: recurrent bias of the hidden gate, with linear_before_reset

  // `x` is the input part of all gates with the biases, `r` the recurrent part; updates the states
  // `h` and `c`.
  void rnn(const T* x, const T* r, T* h) const;
  void lstm(const T* x, const T* r, T* h, T* c) const;
  // Two halves, because the recurrent GEMM lies between them if the reset is applied first. The
  // first half stores the gates (update, reset) in `gates` and the state times reset in `kept`.
  void gru_gates(const T* x, const T* r, const T* h, T* gates, T* kept) const;
  // `r` is the recurrent part of the hidden gate.
  void gru_state(const T* x, const T* r, const T* gates, T* h) const;

 private:
  T clipped(T value) const;
};

}  // namespace sluice::engine

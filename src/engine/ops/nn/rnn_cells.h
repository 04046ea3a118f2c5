// What a recurrent layer does with one step of its sequences.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "engine/graph/attributes.h"

namespace sluice::engine {

// A function between -1, 0 or 1 and more, of the kinds that recurrent layers may name.
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

// Those of all directions, `defaults` for each where the node names none. Takes alphas and
// betas in order, for those that have such.
std::vector<CellActivation> read_activations(const Attributes& attributes,
                                             const std::vector<std::string>& defaults,
                                             std::size_t directions);

// Settings of one direction, and the rows of one sequence at one step.
template <class T>
struct Cell {
  std::int64_t hidden;
  std::array<CellActivation, 3> f{};
  T clip = 0;                    // 0: none
  bool coupled = false;          // LSTM: what is forgotten is what is not taken in
  const T* peepholes = nullptr;  // LSTM: [input, output, forget]
  const T* late_bias = nullptr;  // GRU: of the new value, where it is reset after the product

  // `x` is the input's part of all gates with the biases, `r` the state's; `h` and `c` are
  // the state, which changes.
  void rnn(const T* x, const T* r, T* h) const;
  void lstm(const T* x, const T* r, T* h, T* c) const;
  // In two halves, since where the reset comes before the product, the product lies between:
  // the first leaves the gates in `gates` (update, reset) and the state times reset in `kept`.
  void gru_gates(const T* x, const T* r, const T* h, T* gates, T* kept) const;
  // `r` is then what the product of the new value gave.
  void gru_state(const T* x, const T* r, const T* gates, T* h) const;

 private:
  T clipped(T value) const;
};

}  // namespace sluice::engine

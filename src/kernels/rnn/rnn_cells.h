// The cells of RNN, GRU and LSTM on the CPU: activations and state updates from the gate sums of
// one sequence at one time step.
#pragma once

#include <cstdint>

namespace sluice::kernels::cpu {

struct RnnCellUnits {
  std::int64_t units;  // a multiple of 16; also the stride from a gate to the next
  float clip;          // infinity: none

  // Gates are input, output, forget, cell. Peepholes (null: none) are input, output, forget,
  // `peephole_step` apart.
  void lstm(const float* gates, const float* peepholes, std::int64_t peephole_step, float* c,
            float* h) const;
  void rnn(const float* sums, bool relu, float* h) const;

  // The first part of GRU: `sums` (update, reset) become the gates; kept = reset * h.
  void gru_gates(const float* x, float* sums, const float* h, float* kept) const;
  // The second part, from `x` and `sums` of the hidden gate. With `late` (linear_before_reset), the
  // reset gate is applied to sums here.
  void gru_state(const float* x, const float* sums, const float* gates, bool late,
                 const float* before, float* h) const;
};

}  // namespace sluice::kernels::cpu

// What recurrent layers do with the sums of their gates: one sequence at one step, some units at
// a time (whole vectors: a multiple of 16). The operators in ops/recurrent_cells.h say what is
// computed.
#pragma once

#include <cstdint>

namespace sluice::kernels::cpu {

struct CellUnits {
  std::int64_t units;  // from a gate to the next, too
  float clip;          // infinity: none

  // Gates: input, output, forget, new value. With `peepholes` (null: none), which are input,
  // output, forget, `peephole_step` apart.
  void lstm(const float* gates, const float* peepholes, std::int64_t peephole_step, float* c,
            float* h) const;
  void rnn(const float* sums, bool relu, float* h) const;

  // GRU, before its new value: `sums` (update, reset) become the gates; kept = reset * h.
  void gru_gates(const float* x, float* sums, const float* h, float* kept) const;
  // And after: `x` and `sums` are those of the new value. With `late`, sums are reset here.
  void gru_state(const float* x, const float* sums, const float* gates, bool late,
                 const float* before, float* h) const;
};

}  // namespace sluice::kernels::cpu

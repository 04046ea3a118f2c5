// RNN, GRU and LSTM of ONNX on CUDA.
#pragma once

#include <cstdint>

#include "kernels/common/launch_args.h"
#include "kernels/common/real_type.h"

namespace sluice::kernels::cuda {

// An activation function; `kind` is the enumerator in rnn_cells.h.
struct RnnActivation {
  int kind;
  float alpha, beta;
};

struct RnnCall {
  enum class Kind { rnn, gru, lstm } kind;
  // The inputs and outputs of the ONNX operators; null where absent. Lengths are i32 or i64.
  const void *x, *w, *r, *b, *lengths, *first_h, *first_c, *peepholes;
  void *y, *last_h, *last_c;
  // Scratch, [directions, batch, hidden] each: the hidden state before and after a step, the cell
  // state, and the gates of GRU.
  float *h[2], *c, *update, *reset;
  std::int64_t steps, batch, input, hidden, directions;
  RnnActivation f[2][3];  // by direction
  float clip;             // 0: none
  bool long_lengths, batch_first, reversed, coupled, late_reset;
  ErrorFlag error;
};

// Floats of scratch.
inline std::int64_t rnn_scratch_floats(const RnnCall& call) {
  return 5 * call.directions * call.batch * call.hidden;
}
// Runs all time steps, with one launch for each (GRU: two).
void run_rnn(RealType type, RnnCall call, float* scratch, const LaunchArgs& args);

}  // namespace sluice::kernels::cuda

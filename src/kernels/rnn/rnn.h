// What the kernels of recurrent layers are told.
#pragma once

#include <cstdint>

#include "kernels/common/launch_args.h"
#include "kernels/common/real_type.h"

namespace sluice::kernels::cuda {

// A function between gates; `kind` is that of recurrent_cells.h.
struct Squash {
  int kind;
  float alpha, beta;
};

struct RecurrentCall {
  enum class Kind { rnn, gru, lstm } kind;
  // As ONNX has them; null where left out. Lengths are i32 or i64.
  const void *x, *w, *r, *b, *lengths, *first_h, *first_c, *peepholes;
  void *y, *last_h, *last_c;
  // Scratch, [directions, batch, hidden] each: the state before and after a step, the cells,
  // and of GRU what the gates left.
  float *h[2], *c, *update, *reset;
  std::int64_t steps, batch, input, hidden, directions;
  Squash f[2][3];  // by direction
  float clip;      // 0: none
  bool long_lengths, batch_first, reversed, coupled, late_reset;
  ErrorFlag error;
};

// Floats of scratch.
inline std::int64_t recurrent_scratch(const RecurrentCall& call) {
  return 5 * call.directions * call.batch * call.hidden;
}
// All steps, one launch (of GRU two) for each.
void run_recurrent(RealType type, RecurrentCall call, float* scratch, const LaunchArgs& args);

}  // namespace sluice::kernels::cuda

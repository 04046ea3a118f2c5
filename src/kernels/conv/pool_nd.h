// What the kernels are told whose outputs see a window of the input, [batch, channels, ...].
#pragma once

#include <cstdint>

#include "kernels/common/launch_args.h"
#include "kernels/common/real_type.h"

namespace sluice::kernels::cuda {

// One to three axes, with axes of one in front.
struct WindowAxis {
  int in, out, kernel, stride, dilation, before, after;
};

struct WindowCall {
  enum class Kind { most, average, norm } kind;
  const void* from;
  void* to;
  std::int64_t* places;   // of the largest, or null
  std::int64_t channels;  // of all images
  WindowAxis axis[3];
  float p;              // of norm
  bool padding_counts;  // of average
  bool by_columns;      // places count with the first axis innermost
};
void run_window(RealType type, const WindowCall& call, const LaunchArgs& args);

// x / (bias + alpha / size * squares of the channels around)^beta.
struct AcrossChannels {
  const void* from;
  void* to;
  std::int64_t images, channels, pixels;
  int before, after;
  float alpha, beta, bias;  // alpha is divided by the size
};
void run_across_channels(RealType type, const AcrossChannels& call, const LaunchArgs& args);

}  // namespace sluice::kernels::cuda

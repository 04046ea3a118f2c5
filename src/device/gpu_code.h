// GPU code in this binary, and which of it a card runs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::device {

// Compute capabilities as numbers: 90 is 9.0. Empty in a build without CUDA.
struct GpuCode {
  std::vector<int> machine;  // cubins
  std::vector<int> ptx;      // compiled by the driver when it is first used
  int toolkit = 0;           // CUDA version that compiled it: 1300 is 13.0

  bool empty() const noexcept { return machine.empty() && ptx.empty(); }
};

// The code of this binary.
const GpuCode& gpu_code();

// Parses "75 90 ptx90".
GpuCode parse_gpu_code(std::string_view text, int toolkit);

// The capability whose code runs on a card of `capability`, chosen as the driver does: machine code
// of the same major version and no higher minor one, else PTX of no higher capability; 0 where
// there is none. A kernel for `x` may be launched where this is at least x.
int code_for(const GpuCode& code, int capability) noexcept;
// Returns whether that is PTX.
bool needs_jit(const GpuCode& code, int capability) noexcept;

// The same for the code of this binary. Throws unavailable where it has none for the card.
int require_code_for(int capability);

// "9.0, and PTX of 9.0"
std::string describe(const GpuCode& code);

}  // namespace sluice::device

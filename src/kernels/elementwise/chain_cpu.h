// A chain as a list of instructions over registers, each a block of floats.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/elementwise/chain.h"

namespace sluice::kernels::cpu {

inline constexpr std::size_t kChainBlock = 1024;  // floats: the blocks of a chain stay in L1

struct ChainInstruction {
  Chain::Op op;
  int a, b, to;  // registers; b is -1 for those of one
};

// Registers: the inputs, then the constants, then those for what is made on the way; the last
// is the result.
struct ChainCode {
  int inputs = 0;
  std::vector<float> constants;
  int temporaries = 0;
  std::vector<ChainInstruction> instructions;

  int registers() const { return inputs + static_cast<int>(constants.size()) + temporaries + 1; }
  int first_temporary() const { return inputs + static_cast<int>(constants.size()); }
};

// Powers with a known exponent become products; registers are used again.
ChainCode compile(const Chain& chain);

// A register while a block is computed.
struct ChainRegister {
  float* at = nullptr;  // kMostChainLanes floats that are all the same, or a block
  bool one = false;
};
inline constexpr std::size_t kMostChainLanes = 16;

// `count` is at most kChainBlock. The result may lie where an input lies.
void run_block(const ChainCode& code, std::span<const ChainRegister> registers, std::size_t count);

}  // namespace sluice::kernels::cpu

// A chain compiled to instructions over registers, each a block of floats.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/elementwise/chain.h"

namespace sluice::kernels::cpu {

inline constexpr std::size_t kChainBlock = 1024;  // floats: the blocks of a chain stay in L1

// Registers: inputs, constants, temporaries, and last the result.
struct ChainCode {
  struct Instruction {
    Chain::Op op;
    int a, b, to;  // registers; b: -1 with one operand
  };
  int inputs = 0;
  std::vector<float> constants;
  int temporaries = 0;
  std::vector<Instruction> instructions;

  int registers() const { return inputs + static_cast<int>(constants.size()) + temporaries + 1; }
  int first_temporary() const { return inputs + static_cast<int>(constants.size()); }
};

// Powers with a constant exponent become multiplications; registers are reused.
ChainCode compile(const Chain& chain);

// A register while a block runs.
struct ChainRegister {
  float* at = nullptr;  // a block, or kMaxChainLanes equal floats
  bool is_scalar = false;
};
inline constexpr std::size_t kMaxChainLanes = 16;

// Runs `count` elements, at most kChainBlock. The result may be in place of an input.
void run_block(const ChainCode& code, std::span<const ChainRegister> registers, std::size_t count);

}  // namespace sluice::kernels::cpu

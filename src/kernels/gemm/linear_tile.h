// The output tiles of the Hopper Linear kernel, and the rule that chooses one.
#pragma once

#include <array>
#include <cstdint>

namespace sluice::kernels::cuda {

// Rows x columns of a tile. In the pingpong tiles two warpgroups take turns: one computes a tile
// while the other writes the results of its own.
enum class LinearTile { pingpong_m128n192, pingpong_m128n128, m128n64, m64n64, m64n32 };
inline constexpr std::array kLinearTiles = {LinearTile::pingpong_m128n192,
                                            LinearTile::pingpong_m128n128, LinearTile::m128n64,
                                            LinearTile::m64n64, LinearTile::m64n32};

const char* to_string(LinearTile tile);

// The tile with the least estimated time on a GPU with that many multiprocessors. The busiest
// multiprocessor loads all operands of its tiles, at 50 bytes a cycle from the L2 cache, and
// computes them at 4,096 operations a cycle; whichever takes longer counts. Then it writes one
// result, at 16 values a cycle; the writing of earlier tiles overlaps.
LinearTile choose_linear_tile(std::int64_t rows, int n, int k, int multiprocessors);

}  // namespace sluice::kernels::cuda

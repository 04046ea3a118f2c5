#include "kernels/gemm/linear_tile.h"

#include <algorithm>

namespace sluice::kernels::cuda {
namespace {

struct TileSize {
  int rows, columns;
};

TileSize size_of(LinearTile tile) {
  switch (tile) {
    case LinearTile::pingpong_m128n192: return {128, 192};
    case LinearTile::pingpong_m128n128: return {128, 128};
    case LinearTile::m128n64: return {128, 64};
    case LinearTile::m64n64: return {64, 64};
    case LinearTile::m64n32: return {64, 32};
  }
  return {};
}

std::int64_t divide_up(std::int64_t x, std::int64_t by) { return (x + by - 1) / by; }

double estimated_cycles(TileSize tile, std::int64_t rows, int n, int k, int multiprocessors) {
  constexpr double kBytesPerCycle = 50, kOperationsPerCycle = 4096, kResultsPerCycle = 16;
  constexpr double kElementBytes = 2;
  const std::int64_t tiles = divide_up(rows, tile.rows) * divide_up(n, tile.columns);
  const auto tiles_of_busiest = static_cast<double>(divide_up(tiles, std::max(multiprocessors, 1)));
  const double area = static_cast<double>(tile.rows) * tile.columns;
  const double load = (tile.rows + tile.columns) * kElementBytes / kBytesPerCycle;
  const double compute = 2 * area / kOperationsPerCycle;
  return tiles_of_busiest * k * std::max(load, compute) + area / kResultsPerCycle;
}

}  // namespace

const char* to_string(LinearTile tile) {
  switch (tile) {
    case LinearTile::pingpong_m128n192: return "m128n192";
    case LinearTile::pingpong_m128n128: return "m128n128";
    case LinearTile::m128n64: return "m128n64";
    case LinearTile::m64n64: return "m64n64";
    case LinearTile::m64n32: return "m64n32";
  }
  return "";
}

LinearTile choose_linear_tile(std::int64_t rows, int n, int k, int multiprocessors) {
  const auto cycles = [&](LinearTile tile) {
    return estimated_cycles(size_of(tile), rows, n, k, multiprocessors);
  };
  return *std::min_element(kLinearTiles.begin(), kLinearTiles.end(),
                           [&](LinearTile a, LinearTile b) { return cycles(a) < cycles(b); });
}

}  // namespace sluice::kernels::cuda

#include "kernels/attention/attention_cpu.h"

#include <gtest/gtest.h>
#include <hwy/aligned_allocator.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/common/targets_for_tests.h"

namespace sluice::kernels::cpu {
namespace {

// The mask excludes a key for all queries.
void expect_lse_of_double_precision() {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-2, 2);
  for (const auto& [queries, keys, size] :
       {std::tuple<std::size_t, std::size_t, std::size_t>{1, 1, 8},
        {37, 70, 20},
        {130, 65, 32},
        {5, 300, 64}}) {
    const auto numbers = [&](std::size_t count) {
      std::vector<float> made(count);
      for (float& one : made) one = uniform(random);
      return made;
    };
    const auto q = numbers(queries * size), k = numbers(keys * size), v = numbers(keys * size);
    std::vector<float> mask(keys, 0.0f), out(queries * size), lse(queries * 2, NAN);
    if (keys > 5) mask[3] = -INFINITY;
    const auto scratch = hwy::AllocateAligned<float>(attention_scratch(keys, size));
    attend({.queries = queries,
            .keys = keys,
            .size = size,
            .q = q.data(),
            .k = k.data(),
            .v = v.data(),
            .q_row = size,
            .k_row = size,
            .v_row = size,
            .scale = 0.25f,
            .mask = mask.data(),
            .mask_key = 1,
            .out = out.data(),
            .out_row = size,
            .lse = lse.data(),
            .lse_row = 2,
            .scratch = scratch.get()});
    for (std::size_t i = 0; i < queries; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < keys; ++j) {
        double score = static_cast<double>(mask[j]);
        for (std::size_t d = 0; d < size; ++d)
          score +=
              0.25 * static_cast<double>(q[i * size + d]) * static_cast<double>(k[j * size + d]);
        sum += std::exp(score);
      }
      EXPECT_NEAR(static_cast<double>(lse[i * 2]), std::log(sum), 1e-5)
          << queries << " x " << keys << ", query " << i;
    }
  }
}

TEST(CpuAttention, SavesTheLogOfTheSumOfExponentials) {
  for_each_target(expect_lse_of_double_precision);
}

}  // namespace
}  // namespace sluice::kernels::cpu

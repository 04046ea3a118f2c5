#include "engine/encoder/plan_chunks.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

namespace sluice::engine {
namespace {

// Tokens of a chunk: measured with MiniLM and BERT-base, whose GEMMs lose below, and whose
// intermediate values leave the cache above.
constexpr std::size_t kChunkTokens = 768;
// With fewer tokens for each thread, all threads together are as fast and have no remainder.
constexpr std::size_t kMinTokens = 64;
// Side by side is about this much faster with chunks of equal size.
constexpr double kGain = 1.1;

void add(Chunk& chunk, std::size_t sequence, std::size_t length) {
  chunk.sequences.push_back(sequence);
  chunk.tokens += length;
  chunk.longest = std::max(chunk.longest, length);
}

// Chunks of about `tokens`, in order.
std::vector<Chunk> cut(std::span<const std::size_t> lengths, std::size_t tokens) {
  std::vector<Chunk> chunks;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const bool fits = !chunks.empty() && chunks.back().tokens + lengths[i] / 2 <= tokens;
    if (!fits) chunks.emplace_back();
    add(chunks.back(), i, lengths[i]);
  }
  std::ranges::stable_sort(chunks, std::ranges::greater(), &Chunk::tokens);
  return chunks;
}

// The tokens of the thread that ends last, if each takes the next chunk when it is free.
std::size_t makespan(const std::vector<Chunk>& chunks, std::size_t threads) {
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> busy;
  for (std::size_t i = 0; i < threads; ++i) busy.push(0);
  std::size_t last = 0;
  for (const Chunk& chunk : chunks) {
    const std::size_t end = busy.top() + chunk.tokens;
    busy.pop();
    busy.push(end);
    last = std::max(last, end);
  }
  return last;
}

}  // namespace

ChunkPlan plan_chunks(std::span<const std::size_t> lengths, std::size_t threads) {
  const std::size_t tokens = std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
  if (threads > 1 && tokens >= threads * kMinTokens) {
    const std::size_t rounds = (tokens + threads * kChunkTokens - 1) / (threads * kChunkTokens);
    const std::size_t share = (tokens + threads * rounds - 1) / (threads * rounds);
    ChunkPlan plan{.chunks = cut(lengths, share), .side_by_side = true};
    const double ideal = static_cast<double>(tokens) / static_cast<double>(threads);
    if (static_cast<double>(makespan(plan.chunks, threads)) <= kGain * ideal) return plan;
  }
  return {.chunks = cut(lengths, std::max<std::size_t>(1, threads) * kChunkTokens),
          .side_by_side = false};
}

}  // namespace sluice::engine

#include "engine/io/content_hash.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

namespace sluice::engine {
namespace {

constexpr std::size_t kPiece = 1u << 20;

std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x100000001b3ULL;
  return hash ^ (hash >> 29);
}

std::uint64_t word_at(const char* bytes) {
  std::uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

std::string_view bytes_of(const std::uint64_t& word) {
  return {reinterpret_cast<const char*>(&word), sizeof word};
}

}  // namespace

// FNV-1a on 8-byte words in eight independent lanes.
std::uint64_t plan_hash(std::string_view bytes) {
  constexpr std::size_t kLanes = 8;
  constexpr std::uint64_t kBegin = 0xcbf29ce484222325ULL;
  std::uint64_t lanes[kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = kBegin + i;
  for (; bytes.size() >= sizeof lanes; bytes.remove_prefix(sizeof lanes)) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = mixed(lanes[i], word_at(&bytes[8 * i]));
  }
  std::uint64_t hash = kBegin;
  for (const std::uint64_t lane : lanes) hash = mixed(hash, lane);
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) hash = mixed(hash, word_at(bytes.data()));
  for (const char c : bytes) hash = mixed(hash, static_cast<unsigned char>(c));
  return hash;
}

void FileHash::add(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t taken = std::min(bytes.size(), kPiece - partial_.size());
    partial_ += bytes.substr(0, taken);
    bytes.remove_prefix(taken);
    if (partial_.size() < kPiece) return;
    hashes_ += bytes_of(plan_hash(partial_));
    partial_.clear();
  }
}

std::uint64_t FileHash::finish() {
  if (!partial_.empty()) hashes_ += bytes_of(plan_hash(partial_));
  return plan_hash(hashes_);
}

std::uint64_t file_hash(std::string_view bytes, compute::Workers& workers) {
  std::vector<std::uint64_t> hashes((bytes.size() + kPiece - 1) / kPiece);
  workers.each(hashes.size(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      hashes[i] = plan_hash(bytes.substr(i * kPiece, kPiece));
  });
  return plan_hash({reinterpret_cast<const char*>(hashes.data()), std::span(hashes).size_bytes()});
}

}  // namespace sluice::engine

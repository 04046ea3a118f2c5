// The protocol between a program and its GPU worker: one packet in each direction per call, and the
// arrays in a file in memory that both have mapped.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compute/accelerator.h"

namespace sluice::compute {

inline constexpr std::size_t kMaxOperands = 16, kMaxParameters = 512;

// A call without its arrays: those lie in the file, inputs first, each at the next
// multiple of kFileAlignment.
inline constexpr std::size_t kFileAlignment = 4096;
struct CallPacket {
  struct Shape {
    std::uint64_t item_bytes, shared_bytes;
  };
  std::array<char, 64> operation;  // ends with a 0
  std::uint64_t items, first;
  double work;
  std::uint32_t inputs, outputs, parameters_bytes;
  std::array<Shape, kMaxOperands> shapes;
  std::array<std::byte, kMaxParameters> parameters;
};

enum class Answer : std::uint32_t { ready, done, exhausted, fault, refused };
inline constexpr std::size_t kMaxPools = 4;
struct PoolPacket {
  std::array<char, 16> name;  // ends with a 0; empty: no pool
  std::uint32_t strategy;
  std::uint64_t used, taken, committed, ceiling, count, peak_used, peak_taken, peak_committed;
  std::uint64_t allocations, failures, commits, remapped_bytes, largest_free, grantable, stranded;
  double internal_fragmentation, external_fragmentation, efficiency;
};
struct AnswerPacket {
  Answer answer;
  Taken taken;
  std::array<char, 512> text;  // of an error, or the device's name when ready; ends with a 0
  std::array<PoolPacket, kMaxPools> pools;
};

std::array<PoolPacket, kMaxPools> pack(const std::vector<memory::PoolStatistics>& pools);
// Leaves out what is no pool that pack() makes.
std::vector<memory::PoolStatistics> unpack(const std::array<PoolPacket, kMaxPools>& packets);

CallPacket pack(const Operation& operation, const Call& call);

// The call of a packet with its arrays in `file`, whose parameters are the packet's own.
// Returns nothing when the packet is not one that pack() makes.
std::optional<Call> unpack(const CallPacket& packet, std::byte* file, std::size_t file_bytes);

std::size_t file_bytes(const Call& call);  // that its arrays take

template <std::size_t N>
void put_text(std::array<char, N>& to, std::string_view text) {
  to.fill(0);
  text.copy(to.data(), N - 1);
}

}  // namespace sluice::compute

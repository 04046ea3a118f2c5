// Non-cryptographic hashes of files and names, and checksums of plans. Collisions are easy to
// construct on purpose.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "compute/workers.h"

namespace sluice::engine {

// Always differs if exactly one aligned 8-byte word differs; almost always for other differences.
std::uint64_t plan_hash(std::string_view bytes);

// A streaming and parallel hash: the hash of the hashes of fixed-size blocks.
class FileHash {
 public:
  void add(std::string_view bytes);
  std::uint64_t finish();

 private:
  std::string partial_, hashes_;  // the incomplete block; hashes of the blocks before it
};
std::uint64_t file_hash(std::string_view bytes, compute::Workers& workers);

}  // namespace sluice::engine

// Hashes that tell files and names apart, and whole plans from damaged ones. Not for those who
// choose the bytes: two texts with the same hash are made with ease.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "compute/workers.h"

namespace sluice::engine {

// Another one whenever eight bytes at a multiple of eight, or a part of them, are others; of texts
// that differ more, almost always.
std::uint64_t plan_hash(std::string_view bytes);

// The same for what comes in parts and for files, on all cores: a hash of the hashes of pieces.
class FileHash {
 public:
  void add(std::string_view bytes);
  std::uint64_t finish();

 private:
  std::string begun_, hashes_;  // of the piece that is not whole yet; of those before it
};
std::uint64_t file_hash(std::string_view bytes, compute::Workers& workers);

}  // namespace sluice::engine

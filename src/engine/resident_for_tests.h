#pragma once

#include <malloc.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>

namespace sluice::engine {

// Resident bytes of this process, without free malloc memory.
inline std::size_t resident() {
  malloc_trim(0);
  std::ifstream in("/proc/self/statm");
  std::size_t all = 0, here = 0;
  in >> all >> here;
  return here * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace sluice::engine

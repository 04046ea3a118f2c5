// Mapped files that nobody changes: see map_file.
#pragma once

#include <cstddef>
#include <map>

#include "base/mutex.h"

namespace sluice {

// The first `size` bytes of a file in memory of their own, to be unmapped. Throws exhausted where
// there is none, or the file ends early or cannot be read.
void* copy_of_file(int fd, std::size_t size);

// All mappings under a lease, and the thread that hears when one of them is to end. The system
// tells it by SIGIO, sent to this thread alone, where it is blocked.
class LeasedMaps {
 public:
  static LeasedMaps& instance();  // never destroyed: mappings may be held by what is

  // Null where there is no lease: the file is another user's, is open for writing, or lies on a
  // file system whose files others can change unseen. Takes `fd` over otherwise.
  const void* map(int fd, std::size_t size);
  void unmap(const void* at);

 private:
  struct Mapping {
    int fd;  // -1: a private copy by now
    std::size_t size;
  };

  LeasedMaps();
  void watch();
  static void make_private(void* at, Mapping& mapping);

  const int process_;
  int thread_ = 0;  // 0: there is none
  Mutex mutex_;
  std::map<const void*, Mapping> mappings_ GUARDED_BY(mutex_);
};

}  // namespace sluice

// File mappings under a lease: see map_file.
#pragma once

#include <cstddef>
#include <map>

#include "base/mutex.h"

namespace sluice {

// Copies the first `size` bytes of a file to anonymous memory, to be unmapped. Throws exhausted if
// memory is not sufficient, or the file is too short or cannot be read.
void* copy_of_file(int fd, std::size_t size);

// All mappings under a lease, and the thread that handles lease breaks. The kernel notifies it by
// SIGIO, which is directed to this thread and blocked there.
class LeasedMaps {
 public:
  static LeasedMaps& instance();  // never destroyed: mappings may be held by what is

  // Null if no lease is granted: the file belongs to another user, is open for writing, or is on a
  // file system that others can change unnoticed. Otherwise takes ownership of `fd`.
  const void* map(int fd, std::size_t size);
  void unmap(const void* at);

 private:
  struct Mapping {
    int fd;  // -1: replaced by a private copy
    std::size_t size;
  };

  LeasedMaps();
  void watch();
  static void make_private(void* at, Mapping& mapping);

  const int process_;
  int thread_ = 0;  // 0: not started
  Mutex mutex_;
  std::map<const void*, Mapping> mappings_ GUARDED_BY(mutex_);
};

}  // namespace sluice

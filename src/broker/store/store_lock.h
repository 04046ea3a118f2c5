// The right to write one store: a file that one process at a time has locked, and that
// says which.
#pragma once

#include <string>

#include "base/state_file.h"

namespace sluice::broker {

class StoreLock {
 public:
  // Throws unavailable with the owner's process number when another has it. The lock
  // goes with the process, however that ends.
  explicit StoreLock(const std::string& path);

  // Whether a store was opened here before. Its file is then not expected to be empty.
  bool was_used() const noexcept { return was_used_; }
  void sign();  // the store is open: name ourselves as the owner

 private:
  StateFile file_;
  bool was_used_ = false;
};

}  // namespace sluice::broker

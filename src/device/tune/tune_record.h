// Stores the original settings of tuned GPUs in a file of the state folder.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/state_file.h"
#include "device/sysfs.h"
#include "device/tune/tune.h"

namespace sluice::device {

// Not thread-safe; one process at a time holds it, by a lock on a file beside it.
class TuneRecord {
 public:
  // Reads `folder`/`name` where it exists. Throws invalid_argument for a file that
  // is no record, unavailable when it cannot be read or is no state file of ours.
  explicit TuneRecord(Path folder, std::string name = "tune.json");

  // Waits for other processes, then keeps them out until this object is gone. Makes
  // the folder and reads the file again, which may have changed meanwhile.
  void lock();

  const Tuning* of(const std::string& uuid) const;

  // Keeps the first record: it is the true original.
  void remember(const std::string& uuid, const Tuning& before);
  void replace(const std::string& uuid, const Tuning* original);  // null forgets it

  // A crash leaves the old or the new file. Throws unavailable.
  void save() const;

  Path file() const { return folder_ / name_; }

  TuneRecord(const TuneRecord&) = delete;
  TuneRecord& operator=(const TuneRecord&) = delete;

 private:
  void load();

  Path folder_;
  std::string name_;
  std::map<std::string, Tuning> originals_;  // by UUID
  std::optional<StateFile> lock_;
};

}  // namespace sluice::device

// A file that appears whole or not at all: it is written under another name, synced, and
// renamed. A process that is killed leaves the old file as it was, and one of the other name
// beside it, which the next writer of the file removes.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string_view>

namespace sluice {

class NewFile {
 public:
  // Makes the folder where it is missing. Throws unavailable, with the system's reason.
  explicit NewFile(std::filesystem::path file, mode_t mode = 0644);
  ~NewFile();  // without keep() nothing is left
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::string_view bytes);
  void keep();

  // Removes temporary files that killed processes left in a folder; files of live writers stay.
  static void remove_leftovers(const std::filesystem::path& folder);

 private:
  void make();
  [[noreturn]] void fail(std::string_view what);

  std::filesystem::path file_, temporary_;
  int fd_ = -1;
};

}  // namespace sluice

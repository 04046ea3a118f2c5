// Opens the files that Sluice keeps for itself: leases, history, locks, records, caches.
//
// A user who may write to such a folder could put a link, a pipe or a file of their own in the
// place of ours, to read what we write or to have us overwrite another file of ours. So a state
// file is a regular file that this user or root owns, with one name (a hard link would let us write
// to another file of ours), and the last part of its path is no symbolic link. The folder itself
// may be reached through one.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>

namespace sluice {

class StateFile {
 public:
  // `flags` as for open(2). Throws unavailable where the file cannot be opened or is not ours,
  // and then has changed nothing. A missing file without O_CREAT gives one that is not open. One
  // of ours that is opened for writing loses the permissions that `mode` does not have.
  StateFile(const std::string& path, int flags, mode_t mode = 0600);
  ~StateFile();
  StateFile(StateFile&& from) noexcept;
  StateFile& operator=(StateFile&& from) noexcept;

  bool is_open() const noexcept { return fd_ >= 0; }
  int fd() const noexcept { return fd_; }

 private:
  int fd_ = -1;
};

// Checks a file that a library opens by its name: throws as StateFile does when it is not ours.
// Opens nothing: closing a descriptor would drop the locks that SQLite has on the same file.
void check_state_file(const std::string& path);

// The whole file; nothing where there is none. Throws as StateFile does, and unavailable where it
// has more than `max_bytes`.
std::optional<std::string> read_state_file(const std::string& path, std::size_t max_bytes);

// Describes who else may put files into a state folder, and the fix; empty when nobody may. `user`
// is the one that the server runs as.
std::string folder_warning(const std::string& path, uid_t user);

// Removes what is left of a Unix socket at `path`. Throws unavailable where anything else is
// there, or a socket of another user.
void remove_stale_socket(const std::string& path);

}  // namespace sluice

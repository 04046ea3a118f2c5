#include "base/new_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"

namespace sluice {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kMark = ".new-";  // before the six letters that mkostemp chooses
constexpr std::size_t kLetters = 6;

// "x.plan" of "x.plan.new-a1B2c3"; empty where it is no such name.
std::string_view target_name(std::string_view name) {
  const std::size_t mark = name.rfind(kMark);
  const bool ours = mark != name.npos && name.size() == mark + kMark.size() + kLetters;
  return ours ? name.substr(0, mark) : std::string_view();
}

// A writer holds a lock on what it writes for as long as it lives.
void remove_if_left(const fs::path& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return;
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) ::unlink(file.c_str());
  ::close(fd);
}

// Removes the leftovers of `name`, or of every file where it is empty.
void remove_left(const fs::path& folder, std::string_view name) {
  std::error_code failed;
  fs::directory_iterator entry(folder, failed);
  for (; !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
    const std::string here = entry->path().filename().string();
    const std::string_view original = target_name(here);
    if (!original.empty() && (name.empty() || original == name)) remove_if_left(entry->path());
  }
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

}  // namespace

NewFile::NewFile(fs::path file, mode_t mode) : file_(std::move(file)) {
  std::error_code ignored;  // the next step fails, and says why, where this does
  if (file_.has_parent_path()) fs::create_directories(file_.parent_path(), ignored);
  remove_left(folder_of(file_), file_.filename().string());
  make();
  ::fchmod(fd_, mode);
}

// Until the lock is taken another writer may take the file for a leftover and remove it.
void NewFile::make() {
  for (;;) {
    std::string name = file_.string() + std::string(kMark) + std::string(kLetters, 'X');
    fd_ = ::mkostemp(name.data(), O_CLOEXEC);
    temporary_ = name;
    if (fd_ < 0) fail("cannot be made");
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return;  // a file system without locks: nobody will remove it
    } else if (struct stat facts{}; ::fstat(fd_, &facts) == 0 && facts.st_nlink > 0) {
      return;
    }
    ::unlink(name.c_str());
    ::close(std::exchange(fd_, -1));
  }
}

void NewFile::remove_leftovers(const fs::path& folder) { remove_left(folder, ""); }

NewFile::~NewFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void NewFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot be written");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void NewFile::keep() {
  if (::fsync(fd_) != 0) fail("cannot be synced");
  if (::rename(temporary_.c_str(), file_.c_str()) != 0) fail("cannot be put in place");
  ::close(std::exchange(fd_, -1));
  const int holder = ::open(folder_of(file_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (holder < 0) return;
  ::fsync(holder);  // the name; some file systems cannot, and the file is there all the same
  ::close(holder);
}

void NewFile::fail(std::string_view what) {
  throw Error(Code::unavailable,
              file_.string() + " " + std::string(what) + ": " + std::strerror(errno));
}

}  // namespace sluice

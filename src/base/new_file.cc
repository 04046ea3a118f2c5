#include "base/new_file.h"

#include <fcntl.h>
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

NewFile::NewFile(fs::path file) : file_(std::move(file)) {
  std::error_code ignored;  // the next step fails, and says why, where this does
  if (file_.has_parent_path()) fs::create_directories(file_.parent_path(), ignored);
  std::string name = file_.string() + ".XXXXXX";
  fd_ = ::mkostemp(name.data(), O_CLOEXEC);
  temporary_ = name;
  if (fd_ < 0) fail("cannot be made");
  ::fchmod(fd_, 0644);
}

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
  const fs::path folder = file_.has_parent_path() ? file_.parent_path() : fs::path(".");
  const int holder = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (holder < 0) return;
  ::fsync(holder);  // the name; some file systems cannot, and the file is there all the same
  ::close(holder);
}

void NewFile::fail(std::string_view what) {
  throw Error(Code::unavailable,
              file_.string() + " " + std::string(what) + ": " + std::strerror(errno));
}

}  // namespace sluice

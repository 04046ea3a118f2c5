#include "cli/text/resumable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/json.h"
#include "base/new_file.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMaxProgress = 1 << 20;

fs::path with_end(fs::path path, const char* end) { return path += end; }

}  // namespace

ResumableFile::ResumableFile(fs::path out, Json key)
    : out_(std::move(out)),
      partial_(with_end(out_, ".partial")),
      progress_(with_end(out_, ".progress")),
      key_(std::move(key)) {
  if (out_.has_parent_path()) {
    std::error_code ignored;  // opening the file reports it
    fs::create_directories(out_.parent_path(), ignored);
  }
  open_locked();
  if (!resume()) cut(0);
}

ResumableFile::~ResumableFile() {
  if (fd_ >= 0) close(fd_);
}

void ResumableFile::fail(std::string_view what) const {
  throw Error(Code::unavailable,
              fmt::format("cannot {} {}: {}", what, partial_.string(), std::strerror(errno)));
}

// Progress that cannot be read, or is of another run, counts as none.
bool ResumableFile::resume() {
  std::error_code none;
  if (!fs::is_regular_file(progress_, none) || fs::file_size(progress_, none) > kMaxProgress)
    return false;
  std::ifstream in(progress_, std::ios::binary);
  if (!in) return false;
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  try {
    const Json progress = parse_json_object(text, progress_.string());
    const std::uint64_t size = progress.at("bytes").get<std::uint64_t>();
    std::error_code error;
    if (progress.at("key") != key_ || fs::file_size(partial_, error) < size || error) return false;
    if (!progress.at("state").is_object()) return false;
    state_ = progress.at("state");
    cut(size);
    return true;
  } catch (const Error&) {
    return false;
  } catch (const Json::exception&) {
    return false;
  }
}

void ResumableFile::open_locked() {
  fd_ = open(partial_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd_ < 0) fail("write");
  if (flock(fd_, LOCK_EX | LOCK_NB) != 0)
    throw Error(Code::unavailable, fmt::format("another run is writing {}", out_.string()));
}

void ResumableFile::cut(std::uint64_t size) {
  if (ftruncate(fd_, static_cast<off_t>(size)) != 0) fail("cut");
  size_ = size;
}

void ResumableFile::write_at(std::uint64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t done = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("write");
    bytes.remove_prefix(static_cast<std::size_t>(done));
    offset += static_cast<std::uint64_t>(done);
  }
}

void ResumableFile::write(std::string_view bytes) {
  write_at(size_, bytes);
  size_ += bytes.size();
}

void ResumableFile::save(Json state) {
  if (fdatasync(fd_) != 0) fail("sync");
  state_ = std::move(state);
  const Json progress{{"key", key_}, {"bytes", size_}, {"state", state_}};
  NewFile file(progress_);
  file.write(progress.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  file.keep();
}

void ResumableFile::finish() {
  if (fsync(fd_) != 0) fail("sync");
  std::error_code error;
  fs::rename(partial_, out_, error);
  if (error) {
    errno = error.value();
    fail("rename");
  }
  fs::remove(progress_, error);
}

}  // namespace sluice::cli

#include "watch/history/history_disk.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <sys/file.h>

#include <filesystem>

#include "base/error.h"
#include "base/log.h"

namespace sluice::watch {

namespace fs = std::filesystem;

FileLock::FileLock(const std::string& path) : file_(path, O_RDWR | O_CREAT) {
  if (::flock(file_.fd(), LOCK_EX | LOCK_NB) != 0)
    throw Error(Code::unavailable, path + " is held: another sluice uses this state folder");
}

std::string move_aside(const std::string& path, const std::string& why) {
  const auto now = std::chrono::system_clock::now();
  std::string target = fmt::format("{}.{}-{:%Y%m%dT%H%M%S}", path, why,
                                   fmt::gmtime(std::chrono::system_clock::to_time_t(now)));
  std::error_code ignored;  // only the first of the three need exist
  for (int n = 2; fs::exists(target, ignored); ++n) target = fmt::format("{}.{}-{}", path, why, n);
  for (const char* suffix : {"", "-wal", "-shm"})
    fs::rename(path + suffix, target + suffix, ignored);
  if (fs::exists(path, ignored)) throw Error(Code::unavailable, path + " cannot be moved aside");
  return target;
}

namespace {

std::unique_ptr<HistoryDisk> open_once(const std::string& path, std::uint64_t max_bytes) {
  // The order matters: lock, writer (creates the file), reader.
  std::unique_ptr<HistoryDisk> disk(new HistoryDisk{FileLock(path + ".lock"),
                                                    HistoryStore::writer(path, max_bytes),
                                                    HistoryStore::reader(path), 0});
  disk->last_batch = disk->writer.last_batch();
  std::error_code ignored;
  fs::remove(path + "-shm", ignored);  // of an earlier version, which shared its index
  return disk;
}

}  // namespace

std::unique_ptr<HistoryDisk> open_history(const std::string& path, std::uint64_t max_bytes) {
  std::error_code failed;
  if (const auto folder = fs::path(path).parent_path(); !folder.empty())
    fs::create_directories(folder, failed);
  if (failed) throw Error(Code::unavailable, path + ": " + failed.message());
  try {
    return open_once(path, max_bytes);
  } catch (const Error& e) {
    const bool damaged = e.code() == Code::internal;
    if (!damaged && e.code() != Code::invalid_argument) throw;
    const auto target = move_aside(path, damaged ? "damaged" : "other");
    log::warn("history: {} cannot be used ({}); it is now {} and a new history begins", path,
              e.what(), target);
  }
  return open_once(path, max_bytes);
}

}  // namespace sluice::watch

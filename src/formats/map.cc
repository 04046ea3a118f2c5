#include "formats/map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "formats/leased_map.h"

namespace sluice {
namespace {

constexpr std::size_t kMinMappedBytes = 1u << 20;  // smaller files are faster to copy

struct stat facts_of(int fd) {
  struct stat facts {};
  ::fstat(fd, &facts);
  return facts;
}

bool same(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

// Copies a file that may be written concurrently.
const void* whole_copy(int fd, const struct stat& before) {
  const auto size = static_cast<std::size_t>(before.st_size);
  void* const at = copy_of_file(fd, size);
  const struct stat after = facts_of(fd);
  if (after.st_size == before.st_size && same(after.st_mtim, before.st_mtim) &&
      same(after.st_ctim, before.st_ctim))
    return at;
  ::munmap(at, size);
  throw Error(Code::exhausted, "it was written to while it was read");
}

}  // namespace

std::string_view map_file(const std::filesystem::path& file, std::shared_ptr<const void>& keep) {
  const auto fail = [&](Code code, std::string_view why) {
    return Error(code, "cannot open '" + file.string() + "': " + std::string(why));
  };
  std::error_code error;
  if (std::filesystem::exists(file, error) && !std::filesystem::is_regular_file(file, error))
    throw fail(Code::invalid_argument, "it is not a file");  // opening a pipe would block
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw fail(Code::not_found, std::strerror(errno));
  const auto close = [](const int* open) { ::close(*open); };
  std::unique_ptr<const int, decltype(close)> open(&fd, close);
  const struct stat facts = facts_of(fd);
  if (!S_ISREG(facts.st_mode)) throw fail(Code::invalid_argument, "it is not a file");
  const auto size = static_cast<std::size_t>(facts.st_size);
  if (size == 0) return {};
  const void* at = size > kMinMappedBytes ? LeasedMaps::instance().map(fd, size) : nullptr;
  if (at != nullptr) {
    (void)open.release();  // owned by the mapping
    keep = std::shared_ptr<const void>(at, [](const void* p) { LeasedMaps::instance().unmap(p); });
    return {static_cast<const char*>(at), size};
  }
  try {
    at = whole_copy(fd, facts);
  } catch (const Error& why) {
    throw fail(why.code(), why.reason());
  }
  keep = std::shared_ptr<const void>(
      at, [size](const void* p) { ::munmap(const_cast<void*>(p), size); });
  return {static_cast<const char*>(at), size};
}

bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  const bool there = std::filesystem::exists(path, error);
  if (error)
    throw Error(Code::not_found, "cannot open '" + path.string() + "': " + error.message());
  return there;
}

}  // namespace sluice

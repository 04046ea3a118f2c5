#include "formats/map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace sluice {

std::string_view map_file(const std::filesystem::path& file, std::shared_ptr<const void>& keep) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    throw Error(Code::not_found, "cannot open '" + file.string() + "': " + std::strerror(errno));
  struct stat facts {};
  if (::fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    ::close(fd);
    throw Error(Code::invalid_argument, "'" + file.string() + "' is not a file");
  }
  const auto size = static_cast<std::size_t>(facts.st_size);
  if (size == 0) {
    ::close(fd);
    return {};
  }
  void* const at = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  ::close(fd);
  if (at == MAP_FAILED) throw Error(Code::exhausted, "cannot map '" + file.string() + "'");
  keep = std::shared_ptr<const void>(
      at, [size](const void* p) { ::munmap(const_cast<void*>(p), size); });
  return {static_cast<const char*>(at), size};
}

}  // namespace sluice

#include "broker/store/store_mark.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <boost/crc.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string_view>

#include "base/error.h"

namespace sluice::broker {

namespace {

constexpr std::size_t kLine = 128;  // one line lies in one sector
constexpr off_t kReserved = 0, kPosition = kLine;

std::uint32_t crc_of(std::string_view text) {
  boost::crc_32_type crc;
  crc.process_bytes(text.data(), text.size());
  return crc.checksum();
}

// "WORDS CRC", padded.
std::string sealed(const std::string& words) {
  return fmt::format("{:<{}}\n", fmt::format("{} {:08x}", words, crc_of(words)), kLine - 1);
}

// The words; nothing where the checksum does not agree.
std::optional<std::string> unsealed(std::string_view line) {
  line = line.substr(0, line.find_last_not_of(" \n") + 1);
  const auto space = line.rfind(' ');
  if (space == line.npos) return std::nullopt;
  const auto words = line.substr(0, space);
  if (line.substr(space + 1) != fmt::format("{:08x}", crc_of(words))) return std::nullopt;
  return std::string(words);
}

bool put(int fd, off_t at, const std::string& line) {
  return ::pwrite(fd, line.data(), line.size(), at) == static_cast<ssize_t>(line.size());
}

// The name of a new file is with the disk only when its folder is.
void sync_folder_of(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);  // some file systems cannot
  ::close(fd);
}

}  // namespace

Marked read_mark(const std::string& path) {
  Marked out;
  const auto text = read_state_file(path, 4 * kLine);
  if (!text || text->empty()) return out;
  out.exists = true;
  const auto words = [&](off_t at) {
    const auto from = std::min(static_cast<std::size_t>(at), text->size());
    auto found = unsealed(std::string_view(*text).substr(from, kLine));
    out.is_damaged = out.is_damaged || !found;
    return std::istringstream(found.value_or(""));
  };
  std::string name;
  LeaseId last = 0;
  if (auto in = words(kReserved); in >> name >> last && name == "reserved") out.reserved = last;
  WalPosition log;
  if (auto in = words(kPosition);
      in >> name >> log.salt1 >> log.salt2 >> log.frames && name == "log")
    out.position = log;
  return out;
}

StoreMark::StoreMark(const std::string& path) : path_(path), file_(path, O_RDWR | O_CREAT) {
  if (::lseek(file_.fd(), 0, SEEK_END) != 0) return;
  reserve(0);
  note(std::nullopt);
  sync_folder_of(path_);
}

void StoreMark::reserve(LeaseId last) {
  if (!put(file_.fd(), kReserved, sealed(fmt::format("reserved {}", last))) ||
      ::fdatasync(file_.fd()) != 0)
    throw Error(Code::unavailable,
                fmt::format("{} cannot be written: {}", path_, std::strerror(errno)));
}

void StoreMark::note(const std::optional<WalPosition>& p) noexcept {
  try {
    put(file_.fd(), kPosition,
        sealed(p ? fmt::format("log {} {} {}", p->salt1, p->salt2, p->frames) : "closed"));
  } catch (const std::exception&) {  // out of memory: the line is as it was
  }
}

void StoreMark::sync() noexcept { ::fdatasync(file_.fd()); }

}  // namespace sluice::broker

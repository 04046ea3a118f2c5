#include "base/sqlite/sqlite_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/state_file.h"

namespace sluice {

namespace {

// The formats are SQLite's: https://sqlite.org/fileformat2.html and walformat.html.
constexpr std::size_t kWalHeader = 32, kFrameHeader = 24, kFileHeader = 108, kIndexHeader = 48;
constexpr std::uint32_t kWalMagic = 0x377f0682;  // the last bit: words are big-endian
constexpr std::uint32_t kWalVersion = 3007000;

using Bytes = std::span<const unsigned char>;

std::uint32_t big32(Bytes from, std::size_t at) {
  return std::uint32_t{from[at]} << 24 | std::uint32_t{from[at + 1]} << 16 |
         std::uint32_t{from[at + 2]} << 8 | std::uint32_t{from[at + 3]};
}

template <class T>
T native(Bytes from, std::size_t at) {
  T value;
  std::memcpy(&value, from.data() + at, sizeof value);
  return value;
}

std::uint64_t size_of(const StateFile& file) {
  struct stat facts {};
  return ::fstat(file.fd(), &facts) == 0 ? static_cast<std::uint64_t>(facts.st_size) : 0;
}

// Returns the number of bytes read.
std::size_t read_at(const StateFile& file, std::uint64_t at, std::span<unsigned char> into) {
  std::size_t done = 0;
  while (done < into.size()) {
    const auto n =
        ::pread(file.fd(), into.data() + done, into.size() - done, static_cast<off_t>(at + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      throw Error(Code::unavailable,
                  std::string("a database cannot be read: ") + std::strerror(errno));
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

// SQLite's running sum over words of 32 bits.
struct Sum {
  bool big = false;
  std::uint32_t a = 0, b = 0;

  void add(Bytes bytes) {
    for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
      a += word(bytes, i) + b;
      b += word(bytes, i + 4) + a;
    }
  }
  std::uint32_t word(Bytes bytes, std::size_t at) const {
    const auto value = big32(bytes, at);
    return big ? value : __builtin_bswap32(value);
  }
};

// Reads the database header on page 1.
struct FirstPage {
  std::uint32_t user_version = 0, application_id = 0;
  bool is_database = false, has_tables = false;
};

FirstPage first_page(Bytes page) {
  constexpr std::string_view kMagic("SQLite format 3\0", 16);
  constexpr unsigned char kLeaf = 0x0d;
  FirstPage out;
  if (page.size() < kFileHeader || !std::equal(kMagic.begin(), kMagic.end(), page.begin()))
    return out;
  out.is_database = true;
  out.user_version = big32(page, 60);
  out.application_id = big32(page, 68);
  out.has_tables = page[100] != kLeaf || page[103] != 0 || page[104] != 0;
  return out;
}

struct WalScan {
  WalFacts facts;
  std::optional<FirstPage> page1;  // of the last commit that has one
};

class WalReader {
 public:
  explicit WalReader(const StateFile& file) : file_(file) { scan_.facts.bytes = size_of(file); }

  WalScan read() {
    if (scan_.facts.bytes == 0) return scan_;
    if (!read_header()) {
      scan_.facts.has_bad_header = true;
      return scan_;
    }
    std::uint64_t at = 0;
    while (read_frame(at)) ++at;
    count_dropped(at);
    return scan_;
  }

 private:
  bool read_header() {
    std::array<unsigned char, kWalHeader> head{};
    if (read_at(file_, 0, head) < head.size()) return false;
    const auto magic = big32(head, 0), page = big32(head, 8);
    if ((magic & ~1U) != kWalMagic || big32(head, 4) != kWalVersion) return false;
    if (page < 512 || page > 65536 || !std::has_single_bit(page)) return false;
    sum_.big = (magic & 1U) != 0;
    sum_.add(Bytes(head).first(24));
    if (sum_.a != big32(head, 24) || sum_.b != big32(head, 28)) return false;
    scan_.facts.position = WalPosition{big32(head, 16), big32(head, 20), 0};
    frame_.resize(kFrameHeader + page);
    return true;
  }

  std::uint64_t place_of(std::uint64_t frame) const { return kWalHeader + frame * frame_.size(); }

  bool is_of_this_generation(Bytes head) const {
    return big32(head, 0) != 0 && big32(head, 8) == scan_.facts.position->salt1 &&
           big32(head, 12) == scan_.facts.position->salt2;
  }

  // False at the first frame that SQLite would not take.
  bool read_frame(std::uint64_t index) {
    if (read_at(file_, place_of(index), frame_) < frame_.size()) return false;
    const Bytes frame(frame_);
    if (!is_of_this_generation(frame)) return false;
    auto sum = sum_;
    sum.add(frame.first(8));
    sum.add(frame.subspan(kFrameHeader));
    if (sum.a != big32(frame, 16) || sum.b != big32(frame, 20)) return false;
    sum_ = sum;
    if (big32(frame, 0) == 1) pending_ = first_page(frame.subspan(kFrameHeader));
    if (big32(frame, 4) != 0) {  // ends a transaction
      scan_.facts.position->frames = index + 1;
      if (pending_) scan_.page1 = pending_;
    }
    return true;
  }

  // A log that was cut off while it was written ends with frames of a transaction that has no
  // end. An end that follows a bad frame was written after it, so that one was whole once.
  void count_dropped(std::uint64_t bad) {
    std::array<unsigned char, kFrameHeader> head{};
    std::uint64_t seen = 0;
    for (auto i = bad + 1; read_at(file_, place_of(i), head) == head.size(); ++i) {
      if (!is_of_this_generation(head)) continue;
      ++seen;
      if (big32(head, 4) != 0) scan_.facts.dropped = seen + 1;
    }
  }

  const StateFile& file_;
  WalScan scan_;
  Sum sum_;
  std::vector<unsigned char> frame_;
  std::optional<FirstPage> pending_;
};

// Two copies of one header, in the machine's byte order; the second is written first.
std::optional<WalPosition> position_in_index(const std::string& path) {
  const StateFile file(path, O_RDONLY);
  if (!file.is_open()) return std::nullopt;
  std::array<unsigned char, 2 * kIndexHeader> both{};
  if (read_at(file, 0, both) < both.size()) return std::nullopt;
  const auto head = Bytes(both).first(kIndexHeader);
  if (!std::ranges::equal(head, Bytes(both).subspan(kIndexHeader))) return std::nullopt;
  Sum sum{std::endian::native == std::endian::big};
  sum.add(head.first(40));
  const bool is_good = native<std::uint32_t>(head, 0) == kWalVersion && head[12] == 1 &&
                       native<std::uint32_t>(head, 40) == sum.a &&
                       native<std::uint32_t>(head, 44) == sum.b;
  if (!is_good) return std::nullopt;
  return WalPosition{big32(head, 32), big32(head, 36), native<std::uint32_t>(head, 16)};
}

bool is_same_log(const WalPosition& a, const WalPosition& b) {
  return a.salt1 == b.salt1 && a.salt2 == b.salt2;
}

std::string damaged_after(const WalFacts& wal) {
  return fmt::format(
      "the write-ahead log is damaged after frame {}; {} frames that follow are lost",
      wal.position->frames, wal.dropped);
}

std::string loss_since(const WalPosition& known, const WalFacts& wal) {
  constexpr std::uint32_t kMaxSteps = 1 << 16;  // of a record that is behind
  if (!wal.position)
    return "the write-ahead log is gone: unless another program merged it, the newest changes are "
           "lost";
  const auto& found = *wal.position;
  // A log begins anew once all of it is in the database.
  if (found.salt1 != known.salt1 && found.salt1 - known.salt1 < kMaxSteps) return "";
  if (!is_same_log(found, known)) return "the write-ahead log is not the one that was written last";
  if (found.frames >= known.frames) return "";
  return wal.dropped > 0 ? damaged_after(wal)
                         : fmt::format(
                               "the write-ahead log ends after frame {} and had {}: the "
                               "newest changes are lost",
                               found.frames, known.frames);
}

}  // namespace

SqliteFacts inspect_sqlite(const std::string& path) {
  SqliteFacts facts;
  const StateFile file(path, O_RDONLY);
  facts.exists = file.is_open();
  if (!facts.exists) return facts;
  facts.bytes = size_of(file);
  std::array<unsigned char, kFileHeader> head{};
  auto page1 = first_page(Bytes(head).first(read_at(file, 0, head)));
  if (const StateFile wal(path + "-wal", O_RDONLY); wal.is_open()) {
    const auto scan = WalReader(wal).read();
    facts.wal = scan.facts;
    if (scan.page1) page1 = *scan.page1;
  }
  facts.last_seen = position_in_index(path + "-shm");
  facts.is_database = page1.is_database, facts.has_tables = page1.has_tables;
  facts.application_id = page1.application_id;
  facts.user_version = static_cast<std::int32_t>(page1.user_version);
  return facts;
}

void require_ours(const SqliteFacts& facts, std::int64_t application_id,
                  std::int64_t known_version) {
  if (facts.bytes == 0) return;
  if (!facts.is_database) throw Error(Code::internal, "it is no database");
  if (facts.has_tables && facts.application_id != application_id)
    throw Error(Code::invalid_argument, "it was made by another program");
  if (facts.user_version > known_version)
    throw Error(Code::invalid_argument, fmt::format("it has version {}, this program knows {}",
                                                    facts.user_version, known_version));
}

std::string wal_damage(const SqliteFacts& facts, const std::optional<WalPosition>& expected) {
  const auto& wal = facts.wal;
  const bool is_expected = facts.last_seen || expected;
  if (wal.has_bad_header && (wal.bytes > kWalHeader || is_expected))
    return "the header of the write-ahead log is damaged, so nothing of it can be read";
  for (const auto& known : {facts.last_seen, expected})
    if (known && known->frames > 0)
      if (auto loss = loss_since(*known, wal); !loss.empty()) return loss;
  // Frames of a transaction that was cut off may lie behind the end; where the end is known, they
  // are no loss.
  const bool is_known =
      facts.last_seen && wal.position && is_same_log(*facts.last_seen, *wal.position);
  return wal.dropped == 0 || is_known ? "" : damaged_after(wal);
}

std::optional<WalPosition> wal_position(const std::string& path, std::uint64_t frames) {
  const StateFile file(path + "-wal", O_RDONLY);
  std::array<unsigned char, kWalHeader> head{};
  if (!file.is_open() || read_at(file, 0, head) < head.size()) return std::nullopt;
  return WalPosition{big32(head, 16), big32(head, 20), frames};
}

}  // namespace sluice

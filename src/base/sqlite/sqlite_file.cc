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
constexpr std::size_t kWalHeader = 32, kFrameHeader = 24, kFileHeader = 108;
constexpr std::uint32_t kWalMagic = 0x377f0682;  // the last bit: words are big-endian
constexpr std::uint32_t kWalVersion = 3007000;

using Bytes = std::span<const unsigned char>;

std::uint32_t big32(Bytes from, std::size_t at) {
  return std::uint32_t{from[at]} << 24 | std::uint32_t{from[at + 1]} << 16 |
         std::uint32_t{from[at + 2]} << 8 | std::uint32_t{from[at + 3]};
}

std::uint64_t size_of(int file) {
  struct stat facts {};
  return ::fstat(file, &facts) == 0 ? static_cast<std::uint64_t>(facts.st_size) : 0;
}

// Returns the number of bytes read.
std::size_t read_at(int file, std::uint64_t at, std::span<unsigned char> into) {
  std::size_t done = 0;
  while (done < into.size()) {
    const auto n =
        ::pread(file, into.data() + done, into.size() - done, static_cast<off_t>(at + done));
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

bool is_same_log(const WalPosition& a, const WalPosition& b) {
  return a.salt1 == b.salt1 && a.salt2 == b.salt2;
}

struct WalHeader {
  WalPosition position;  // without frames
  std::uint32_t page = 0;
  Sum sum;
};

// Nothing where it is damaged or missing.
std::optional<WalHeader> wal_header(int file) {
  std::array<unsigned char, kWalHeader> head{};
  if (read_at(file, 0, head) < head.size()) return std::nullopt;
  const auto magic = big32(head, 0), page = big32(head, 8);
  if ((magic & ~1U) != kWalMagic || big32(head, 4) != kWalVersion) return std::nullopt;
  if (page < 512 || page > 65536 || !std::has_single_bit(page)) return std::nullopt;
  Sum sum{(magic & 1U) != 0};
  sum.add(Bytes(head).first(24));
  if (sum.a != big32(head, 24) || sum.b != big32(head, 28)) return std::nullopt;
  return WalHeader{{big32(head, 16), big32(head, 20), 0}, page, sum};
}

class WalReader {
 public:
  explicit WalReader(int file) : file_(file) { scan_.facts.bytes = size_of(file); }

  WalScan read() {
    if (scan_.facts.bytes == 0) return scan_;
    if (!read_header()) {
      scan_.facts.has_bad_header = true;
      return scan_;
    }
    while (read_frame(next_)) ++next_;
    count_dropped(next_);
    return scan_;
  }

  // Reads on, and the header once.
  bool reaches(const WalPosition& end) {
    if (!scan_.facts.position && !read_header()) return false;
    if (!is_same_log(*scan_.facts.position, end)) return false;
    while (next_ < end.frames && read_frame(next_)) ++next_;
    return next_ >= end.frames;
  }
  bool has_read(const WalPosition& log) const {
    return scan_.facts.position && is_same_log(*scan_.facts.position, log);
  }

 private:
  bool read_header() {
    const auto header = wal_header(file_);
    if (!header) return false;
    sum_ = header->sum;
    scan_.facts.position = header->position;
    frame_.resize(kFrameHeader + header->page);
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

  int file_;
  std::uint64_t next_ = 0;  // frame
  WalScan scan_;
  Sum sum_;
  std::vector<unsigned char> frame_;
  std::optional<FirstPage> pending_;
};

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
  facts.bytes = size_of(file.fd());
  std::array<unsigned char, kFileHeader> head{};
  auto page1 = first_page(Bytes(head).first(read_at(file.fd(), 0, head)));
  if (const StateFile wal(path + "-wal", O_RDONLY); wal.is_open()) {
    const auto scan = WalReader(wal.fd()).read();
    facts.wal = scan.facts;
    if (scan.page1) page1 = *scan.page1;
  }
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
  if (wal.has_bad_header && (wal.bytes > kWalHeader || expected))
    return "the header of the write-ahead log is damaged, so nothing of it can be read";
  if (expected && expected->frames > 0)
    if (auto loss = loss_since(*expected, wal); !loss.empty()) return loss;
  // Frames of a transaction that was cut off may lie behind the end; where the end is known, they
  // are no loss.
  const bool is_known = expected && wal.position && is_same_log(*expected, *wal.position);
  return wal.dropped == 0 || is_known ? "" : damaged_after(wal);
}

std::optional<WalPosition> wal_position(int log, std::uint64_t frames) {
  const auto header = wal_header(log);
  if (!header) return std::nullopt;
  return WalPosition{header->position.salt1, header->position.salt2, frames};
}

struct WalCheck::Impl {
  int log;
  WalReader reader;
};

WalCheck::WalCheck(int log) : impl_(std::make_unique<Impl>(Impl{log, WalReader(log)})) {}
WalCheck::~WalCheck() = default;

bool WalCheck::reaches(const WalPosition& end) {
  if (!impl_->reader.has_read(end)) impl_->reader = WalReader(impl_->log);
  return impl_->reader.reaches(end);
}

}  // namespace sluice

// The trace: a program's allocator requests as a compact file.
//
//   sluice trace 1\n           magic and version
//   {"name": "training", ...}\n  the header, one line of JSON: what head -2 shows
//   events                     see trace.cc
//   4 bytes                    CRC-32 of all before it, little-endian
//
// Blocks are numbered by order of allocation, so that a trace has neither addresses
// nor anything of the data that was in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sluice::memory {

// The figures of the recorded allocator for the same requests.
struct TracePeer {
  std::string name;                   // "PyTorch caching allocator"
  std::uint64_t peak_reserved = 0;    // the most it held, in bytes
  std::uint64_t reserved_before = 0;  // of this when the recording began
};

struct TraceHeader {
  std::string name;    // "training"
  std::string source;  // where it came from, for people
  int device = 0;
  std::uint64_t allocations = 0, frees = 0;
  std::uint64_t unknown_frees = 0;    // of blocks from before the recording: left out
  std::uint64_t live_at_end = 0;      // blocks never freed
  std::uint64_t bytes_at_end = 0;     // in them
  std::uint64_t peak_live_bytes = 0;  // maximum of requested and not yet freed bytes
  std::uint64_t streams = 0;          // that allocated
  std::optional<TracePeer> peer;
};

struct TraceEvent {
  std::uint64_t time_us = 0;  // since the recording began; never goes back
  std::uint64_t bytes = 0;    // of the block, also when it is freed
  std::uint32_t block = 0;    // its number
  bool free = false;
};

struct Trace {
  TraceHeader header;
  std::vector<TraceEvent> events;
};

// Puts a trace together from allocations and frees by address. Not thread-safe.
class TraceBuilder {
 public:
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 44;  // live at once

  // A time before the last one counts as the last one. An address that is out already
  // is freed first: its free was lost. Throws invalid_argument past kMaxBytes.
  void allocated(std::uint64_t time_us, std::uint64_t address, std::uint64_t bytes);
  // Unknown addresses are counted and left out.
  void freed(std::uint64_t time_us, std::uint64_t address);

  // Fills in the counts of the header; the caller fills in the rest.
  Trace finish(TraceHeader header) &&;

 private:
  struct Block {
    std::uint32_t number;
    std::uint64_t bytes;
  };
  std::uint64_t later(std::uint64_t time_us);

  std::vector<TraceEvent> events_;
  std::unordered_map<std::uint64_t, Block> out_;
  std::uint64_t last_us_ = 0, live_ = 0, peak_ = 0, unknown_ = 0;
  std::uint32_t blocks_ = 0;
};

std::string encode(const Trace& trace);

// Throws invalid_argument for what is no trace, is damaged or cut short, or of a
// version this program does not know.
Trace decode(std::string_view bytes);

// The CRC-32 at the end of a trace whose other bytes these are.
std::uint32_t trace_checksum(std::string_view bytes) noexcept;

// Checks the first bytes only.
bool is_trace(std::string_view bytes) noexcept;

// The traces inside this program, by name ("inference", "training").
struct TraceFile {
  std::string_view name;
  const char* begin;
  const char* end;
  std::string_view bytes() const noexcept { return {begin, static_cast<std::size_t>(end - begin)}; }
};
std::span<const TraceFile> shipped_traces() noexcept;  // sorted by name

}  // namespace sluice::memory

// The events, one after another, as LEB128 varints:
//
//   (microseconds since the last event) * 2 + (1 for a free)
//   an allocation: its bytes. It gets the next number, from 0.
//   a free: how many numbers ago its block was allocated, from 0 for the newest.
//
// A block is usually freed soon, so both take a byte or two.
#include "memory/trace/trace.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"

namespace sluice::memory {

namespace {

constexpr std::string_view kMagic = "sluice trace ";
constexpr int kVersion = 1;
constexpr std::uint64_t kMaxMicroseconds = std::uint64_t{1} << 60;
constexpr std::size_t kMaxHeaderBytes = 64 << 10;

// ---- bytes -------------------------------------------------------------------------

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

[[noreturn]] void refuse(const std::string& why) {
  throw Error(Code::invalid_argument, "trace: " + why);
}

class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : rest_(bytes) {}
  bool empty() const noexcept { return rest_.empty(); }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 63; shift += 7) {
      if (rest_.empty()) refuse("an event is cut short");
      const auto byte = static_cast<std::uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    refuse("a number is too long");
  }

  std::string_view line(std::size_t max_bytes) {
    const auto end = rest_.substr(0, max_bytes).find('\n');
    if (end == rest_.npos) refuse("the header is cut short");
    const auto text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }

 private:
  std::string_view rest_;
};

// ---- the header ----------------------------------------------------------------------

std::string header_text(const TraceHeader& header) {
  Json json{{"name", header.name},      {"source", header.source},
            {"device", header.device},  {"allocations", header.allocations},
            {"frees", header.frees},    {"unknown_frees", header.unknown_frees},
            {"streams", header.streams}};
  if (header.peer)
    json["peer"] = {{"name", header.peer->name},
                    {"peak_reserved", header.peer->peak_reserved},
                    {"reserved_before", header.peer->reserved_before}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A trace may come from anyone, and its texts are shown on a terminal.
std::string text_at(const Json& json, const char* key) {
  return printable(json.at(key).get_ref<const std::string&>());
}

TraceHeader header_from(std::string_view text) {
  TraceHeader header;
  try {
    const auto json = Json::parse(text);
    header.name = text_at(json, "name");
    header.source = text_at(json, "source");
    header.device = json.at("device").get<int>();
    header.allocations = json.at("allocations").get<std::uint64_t>();
    header.frees = json.at("frees").get<std::uint64_t>();
    header.unknown_frees = json.value("unknown_frees", std::uint64_t{0});
    header.streams = json.value("streams", std::uint64_t{0});
    if (const auto peer = json.find("peer"); peer != json.end())
      header.peer =
          TracePeer{text_at(*peer, "name"), peer->at("peak_reserved").get<std::uint64_t>(),
                    peer->at("reserved_before").get<std::uint64_t>()};
  } catch (const nlohmann::json::exception&) {
    refuse("the header is not what sluice memory record writes; record it again");
  }
  return header;
}

void check_version(std::string_view line) {
  const auto version = line.substr(kMagic.size());
  if (version != std::to_string(kVersion))
    refuse("version " + printable(version.substr(0, 20)) + " of the format; this program reads " +
           std::to_string(kVersion) + ". Use the sluice that wrote it, or record it again");
}

std::string_view checked_content(std::string_view bytes) {
  if (bytes.size() < 4) refuse("cut short");
  const auto content = bytes.substr(0, bytes.size() - 4);
  std::uint32_t stored = 0;
  for (std::size_t i = 4; i-- > 0;)
    stored = stored << 8 | static_cast<std::uint8_t>(bytes[content.size() + i]);
  if (stored != trace_checksum(content))
    refuse("damaged or cut short (the checksum does not match); copy or record it again");
  return content;
}

// ---- the events ------------------------------------------------------------------------

// Replays numbers as they are read; refuses what no recording can contain.
class EventReader {
 public:
  TraceEvent next(Bytes& bytes) {
    const auto first = bytes.varint();
    TraceEvent event;
    time_ += first >> 1;
    if (time_ > kMaxMicroseconds) refuse("times are not plausible");
    event.time_us = time_;
    event.free = (first & 1) != 0;
    if (event.free)
      take_back(bytes.varint(), event);
    else
      hand_out(bytes.varint(), event);
    return event;
  }

  std::uint64_t peak() const noexcept { return peak_; }
  std::uint64_t live() const noexcept { return live_; }
  std::uint64_t blocks() const noexcept { return sizes_.size(); }

 private:
  static constexpr std::uint64_t kFreed = ~std::uint64_t{0};

  void hand_out(std::uint64_t bytes, TraceEvent& event) {
    if (bytes > TraceBuilder::kMaxBytes) refuse("a block larger than any memory");
    event.block = static_cast<std::uint32_t>(sizes_.size());
    event.bytes = bytes;
    sizes_.push_back(bytes);
    live_ += bytes;
    if (live_ > TraceBuilder::kMaxBytes) refuse("more in use than any memory");
    peak_ = std::max(peak_, live_);
  }

  void take_back(std::uint64_t ago, TraceEvent& event) {
    if (ago >= sizes_.size()) refuse("frees a block that was never allocated");
    const auto block = sizes_.size() - 1 - static_cast<std::size_t>(ago);
    if (sizes_[block] == kFreed) refuse("frees a block twice");
    event.block = static_cast<std::uint32_t>(block);
    event.bytes = sizes_[block];
    live_ -= sizes_[block];
    sizes_[block] = kFreed;
  }

  std::vector<std::uint64_t> sizes_;  // by number
  std::uint64_t time_ = 0, live_ = 0, peak_ = 0;
};

}  // namespace

std::uint64_t TraceBuilder::later(std::uint64_t time_us) {
  last_us_ = std::min(std::max(last_us_, time_us), kMaxMicroseconds);
  return last_us_;
}

void TraceBuilder::allocated(std::uint64_t time_us, std::uint64_t address, std::uint64_t bytes) {
  require(bytes <= kMaxBytes, "a block larger than any memory");
  if (out_.contains(address)) freed(time_us, address);
  require(live_ + bytes <= kMaxBytes, "more in use than any memory");
  require(blocks_ < UINT32_MAX, "more than 4 billion allocations; record less");
  events_.push_back({later(time_us), bytes, blocks_, false});
  out_.emplace(address, Block{blocks_++, bytes});
  live_ += bytes;
  peak_ = std::max(peak_, live_);
}

void TraceBuilder::freed(std::uint64_t time_us, std::uint64_t address) {
  const auto found = out_.find(address);
  if (found == out_.end()) {
    ++unknown_;
    return;
  }
  events_.push_back({later(time_us), found->second.bytes, found->second.number, true});
  live_ -= found->second.bytes;
  out_.erase(found);
}

Trace TraceBuilder::finish(TraceHeader header) && {
  header.allocations = blocks_;
  header.frees = events_.size() - blocks_;
  header.unknown_frees = unknown_;
  header.live_at_end = out_.size();
  header.bytes_at_end = live_;
  header.peak_live_bytes = peak_;
  return {std::move(header), std::move(events_)};
}

std::string encode(const Trace& trace) {
  auto out = fmt::format("{}{}\n{}\n", kMagic, kVersion, header_text(trace.header));
  std::uint64_t time = 0;
  std::uint32_t blocks = 0;
  for (const auto& event : trace.events) {
    put_varint(out, (event.time_us - time) << 1 | (event.free ? 1 : 0));
    time = event.time_us;
    if (event.free) {
      put_varint(out, blocks - 1 - event.block);
    } else {
      put_varint(out, event.bytes);
      ++blocks;
    }
  }
  const auto crc = trace_checksum(out);
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(crc >> shift & 0xff);
  return out;
}

Trace decode(std::string_view bytes) {
  if (!is_trace(bytes)) refuse("this file is not a trace of sluice memory record");
  Bytes front(bytes);
  check_version(front.line(64));
  Bytes content(checked_content(bytes));
  content.line(64);
  Trace trace;
  trace.header = header_from(content.line(kMaxHeaderBytes));
  EventReader reader;
  while (!content.empty()) {
    if (reader.blocks() == UINT32_MAX) refuse("more than 4 billion allocations");
    trace.events.push_back(reader.next(content));
  }
  auto& header = trace.header;
  if (header.allocations != reader.blocks() ||
      header.frees != trace.events.size() - reader.blocks())
    refuse("the header counts other events than there are");
  header.live_at_end = header.allocations - header.frees;
  header.bytes_at_end = reader.live();
  header.peak_live_bytes = reader.peak();
  return trace;
}

std::uint32_t trace_checksum(std::string_view bytes) noexcept {
  static const auto kTable = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      table[i] = i;
      for (int bit = 0; bit < 8; ++bit)
        table[i] = (table[i] & 1) != 0 ? table[i] >> 1 ^ 0xedb88320u : table[i] >> 1;
    }
    return table;
  }();
  std::uint32_t crc = ~std::uint32_t{0};
  for (const char c : bytes) crc = kTable[(crc ^ static_cast<std::uint8_t>(c)) & 0xff] ^ crc >> 8;
  return ~crc;
}

bool is_trace(std::string_view bytes) noexcept { return bytes.starts_with(kMagic); }

}  // namespace sluice::memory

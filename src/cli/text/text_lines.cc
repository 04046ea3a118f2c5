#include "cli/text/text_lines.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file_to_read.h"

namespace sluice::cli {
namespace {

constexpr std::size_t kBlockBytes = 1 << 20;

std::string text_of(const Json& object, std::string_view field) {
  const auto found = object.find(std::string(field));
  if (found == object.end()) {
    std::string known;
    for (const auto& [name, value] : object.items())
      if (known.size() < 100) known += (known.empty() ? "" : ", ") + name;
    require(false,
            fmt::format("has no field {}{}", field, known.empty() ? "" : "; it has " + known));
  }
  require(found->is_string(), fmt::format("the field {} is not a text", field));
  return found->get<std::string>();
}

void read_json(std::string_view line, bool pairs, const std::string& field, TextItem& item) {
  const Json object = parse_json_object(line, "the line", R"({"text": "..."})");
  std::string text = text_of(object, field);
  if (pairs) item.pair = text_of(object, "pair");
  item.text = std::move(text);
}

void read_plain(std::string_view line, bool pairs, TextItem& item) {
  const auto tab = pairs ? line.find('\t') : line.npos;
  require(!pairs || tab != line.npos, "has no tab between two texts");
  item.text = line.substr(0, tab);
  if (pairs) item.pair = line.substr(tab + 1);
}

}  // namespace

LineReader::LineReader(const std::string& path, std::istream& in)
    : name_(path == "-" ? "stdin" : path) {
  if (path == "-" && &in == &std::cin) {
    file_ = dup(STDIN_FILENO);  // as it comes, where a stream waits for a whole block
    if (file_ >= 0) return;
  }
  if (path == "-") {
    in_ = &in;
    return;
  }
  file_ = open_to_read(path);
  if (file_ < 0)
    throw Error(errno == ENOENT ? Code::not_found : Code::invalid_argument,
                fmt::format("cannot read {}: {}", path, std::strerror(errno)));
}

LineReader::~LineReader() {
  if (file_ >= 0) close(file_);
}

void LineReader::go_to(std::uint64_t offset, std::size_t number) {
  if (lseek(file_, static_cast<off_t>(offset), SEEK_SET) < 0)
    throw Error(Code::unavailable,
                fmt::format("cannot go to byte {} of {}: {}", offset, name_, std::strerror(errno)));
  buffer_.clear();
  at_ = 0;
  read_ = offset;
  number_ = number;
}

bool LineReader::would_wait() const {
  if (in_ != nullptr || at_end_ || buffer_.find('\n', at_) != buffer_.npos) return false;
  pollfd asked{.fd = file_, .events = POLLIN, .revents = 0};
  return poll(&asked, 1, 0) == 0;
}

bool LineReader::fill() {
  buffer_.erase(0, at_);
  at_ = 0;
  const std::size_t had = buffer_.size();
  buffer_.resize(had + kBlockBytes);
  std::ptrdiff_t got = 0;
  if (in_ != nullptr) {
    in_->read(buffer_.data() + had, kBlockBytes);
    got = in_->gcount();
  } else {
    do got = read(file_, buffer_.data() + had, kBlockBytes);
    while (got < 0 && errno == EINTR);
    if (got < 0)
      throw Error(Code::unavailable,
                  fmt::format("cannot read {}: {}", name_, std::strerror(errno)));
  }
  buffer_.resize(had + static_cast<std::size_t>(got));
  read_ += static_cast<std::uint64_t>(got);
  at_end_ = got == 0;
  return got > 0;
}

bool LineReader::next(std::string_view& line) {
  too_long_ = false;
  std::size_t searched = at_;
  auto end = buffer_.find('\n', searched);
  while (end == buffer_.npos && !at_end_) {
    if (buffer_.size() - at_ > kMaxLineBytes) {  // the rest of the line is dropped as it comes
      too_long_ = true;
      at_ = buffer_.size();
    }
    searched = buffer_.size() - at_;
    if (fill()) end = buffer_.find('\n', searched);
  }
  if (end == buffer_.npos && at_ == buffer_.size() && !too_long_) return false;
  const auto stop = end == buffer_.npos ? buffer_.size() : end;
  line = std::string_view(buffer_).substr(at_, stop - at_);
  if (line.ends_with('\r')) line.remove_suffix(1);
  at_ = end == buffer_.npos ? buffer_.size() : end + 1;
  ++number_;
  return true;
}

TextFormat format_of_texts(const std::string& path) {
  return path.ends_with(".ndjson") || path.ends_with(".jsonl") ? TextFormat::ndjson
                                                               : TextFormat::lines;
}

TextItem text_item(std::string_view line, const LineReader& lines, TextFormat format, bool pairs,
                   const std::string& field) {
  TextItem item{.line = lines.number(), .text = {}, .pair = {}, .error = {}};
  try {
    require(!lines.too_long(),
            fmt::format("the line has more than {} MiB", LineReader::kMaxLineBytes >> 20));
    format == TextFormat::ndjson ? read_json(line, pairs, field, item)
                                 : read_plain(line, pairs, item);
  } catch (const Error& e) {
    item.error = fmt::format("{}:{}: {}", lines.name(), item.line, e.reason());
  }
  return item;
}

}  // namespace sluice::cli

// Texts from a file or a pipe: one a line, or a JSON object a line.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace sluice::cli {

// LineReader without their end ("\n", "\r\n"). A line of more than kMaxLineBytes is skipped and
// reported.
class LineReader {
 public:
  static constexpr std::size_t kMaxLineBytes = std::size_t{64} << 20;

  // A file, or `in` for "-". Throws not_found or invalid_argument when it cannot be opened.
  LineReader(const std::string& path, std::istream& in);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // Goes to an offset() of before, and the number() of then.
  void go_to(std::uint64_t offset, std::size_t number);
  // False at the end. The line is valid until the next call.
  bool next(std::string_view& line);
  // Whether next() would wait for a pipe or a terminal.
  bool would_wait() const;
  std::uint64_t offset() const noexcept { return read_ - (buffer_.size() - at_); }  // behind it
  bool too_long() const noexcept { return too_long_; }  // the line is cut
  std::size_t number() const noexcept { return number_; }
  const std::string& name() const noexcept { return name_; }

 private:
  bool fill();

  std::string name_;
  std::istream* in_ = nullptr;
  int file_ = -1;
  std::string buffer_;
  std::size_t at_ = 0, number_ = 0;
  std::uint64_t read_ = 0;  // bytes of the input, up to the end of the buffer
  bool at_end_ = false, too_long_ = false;
};

enum class TextFormat { lines, ndjson };

// By the name's end: .ndjson and .jsonl are JSON.
TextFormat format_of_texts(const std::string& path);

struct TextItem {
  std::size_t line = 0;
  std::string text;
  std::optional<std::string> pair = std::nullopt;
  std::string error;  // what is wrong with the line; the texts are empty then
};

// The texts of a line: {"text": ..., "pair": ...}, the first under `field`; or with `pairs` two
// texts with a tab between them. Errors name the line and the field.
TextItem text_item(std::string_view line, const LineReader& lines, TextFormat format, bool pairs,
                   const std::string& field = "text");

}  // namespace sluice::cli

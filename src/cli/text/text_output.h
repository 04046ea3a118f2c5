// What commands write for texts: bytes for each, one behind the other.
#pragma once

#include <cstddef>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>

#include "cli/text/resumable_file.h"

namespace sluice::cli {

class TextOutput {
 public:
  using Json = ResumableFile::Json;

  virtual ~TextOutput() = default;

  virtual void add(std::string_view bytes) = 0;
  virtual void save(const Json& /*state*/) {}
  virtual void finish() {}
  // Of an earlier run that is continued; null: none.
  virtual const Json& state() const;
};

std::unique_ptr<TextOutput> output_to(std::ostream& out);
// Writes to a pipe, to /dev/null or to another file that is not regular, as it is.
std::unique_ptr<TextOutput> output_to_special(const std::string& file);
// See ResumableFile for `key`.
std::unique_ptr<TextOutput> output_to_file(const std::string& file, const TextOutput::Json& key);
// A .npy file, f32 [texts, columns]; what is added are whole rows.
std::unique_ptr<TextOutput> output_to_npy(const std::string& file, std::size_t columns,
                                          const TextOutput::Json& key);

}  // namespace sluice::cli

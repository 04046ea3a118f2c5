// Vectors as they are written: rows of a .npy file, or a JSON object a line.
#pragma once

#include <cstddef>
#include <memory>
#include <ostream>
#include <span>
#include <string>

#include "cli/text/resumable_file.h"

namespace sluice::cli {

class VectorOutput {
 public:
  virtual ~VectorOutput() = default;

  // `error`: why there is no vector; empty if there is one.
  virtual void add(std::size_t line, std::span<const float> vector, const std::string& error) = 0;
  virtual void save(const ResumableFile::Json& /*state*/) {}
  virtual void finish() {}
  // Of an earlier run that is continued; null: none.
  virtual const ResumableFile::Json& state() const;
};

// f32 [texts, dimensions]; a text without a vector is a row of NaN.
std::unique_ptr<VectorOutput> npy_output(const std::string& file, std::size_t dimensions,
                                         const ResumableFile::Json& key);
// {"line": 1, "vector": [...]} or {"line": 1, "error": "..."}
std::unique_ptr<VectorOutput> json_output(const std::string& file, const ResumableFile::Json& key);
std::unique_ptr<VectorOutput> json_output(std::ostream& out);

}  // namespace sluice::cli

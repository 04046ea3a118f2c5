#include "cli/text/vector_output.h"

#include <fmt/format.h>

#include <limits>
#include <vector>

#include "base/error.h"
#include "formats/npy/npy_header.h"

namespace sluice::cli {
namespace {

using Json = ResumableFile::Json;

class NpyOutput final : public VectorOutput {
 public:
  NpyOutput(const std::string& file, std::size_t dimensions, const Json& key)
      : file_(file, key),
        dimensions_(static_cast<std::int64_t>(dimensions)),
        nan_(dimensions, std::numeric_limits<float>::quiet_NaN()) {
    if (file_.size() == 0) file_.write(header(0));
  }

  void add(std::size_t, std::span<const float> vector, const std::string& error) override {
    const std::span<const float> row = error.empty() ? vector : nan_;
    rows_.append(reinterpret_cast<const char*>(row.data()), row.size_bytes());
  }
  void save(const Json& state) override {
    flush();
    file_.save(state);
  }
  void finish() override {
    flush();
    const std::size_t row = nan_.size() * sizeof(float), begin = header(0).size();
    const std::string now = header(static_cast<std::int64_t>((file_.size() - begin) / row));
    if (now.size() != begin) throw Error(Code::internal, "a header that grew");
    file_.write_at(0, now);
    file_.finish();
  }
  const Json& state() const override { return file_.state(); }

 private:
  // Of the same size for any number of rows, since it is padded to 64 bytes.
  std::string header(std::int64_t rows) const {
    const std::int64_t shape[] = {rows, dimensions_};
    return npy::write_header("<f4", shape);
  }
  void flush() {
    file_.write(rows_);
    rows_.clear();
  }

  ResumableFile file_;
  std::int64_t dimensions_;
  std::vector<float> nan_;
  std::string rows_;
};

std::string json_line(std::size_t line, std::span<const float> vector, const std::string& error) {
  if (!error.empty())
    return Json{{"line", line}, {"error", error}}.dump(-1, ' ', false,
                                                       Json::error_handler_t::replace) +
           "\n";
  return fmt::format("{{\"line\":{},\"vector\":[{}]}}\n", line, fmt::join(vector, ","));
}

class JsonFile final : public VectorOutput {
 public:
  JsonFile(const std::string& file, const Json& key) : file_(file, key) {}

  void add(std::size_t line, std::span<const float> vector, const std::string& error) override {
    lines_ += json_line(line, vector, error);
  }
  void save(const Json& state) override {
    flush();
    file_.save(state);
  }
  void finish() override {
    flush();
    file_.finish();
  }
  const Json& state() const override { return file_.state(); }

 private:
  void flush() {
    file_.write(lines_);
    lines_.clear();
  }

  ResumableFile file_;
  std::string lines_;
};

class JsonStream final : public VectorOutput {
 public:
  explicit JsonStream(std::ostream& out) : out_(out) {}

  void add(std::size_t line, std::span<const float> vector, const std::string& error) override {
    out_ << json_line(line, vector, error);
  }
  void save(const Json&) override { out_.flush(); }
  void finish() override {
    if (!out_.flush()) throw Error(Code::unavailable, "what reads the vectors has gone");
  }

 private:
  std::ostream& out_;
};

}  // namespace

const Json& VectorOutput::state() const {
  static const Json none;
  return none;
}

std::unique_ptr<VectorOutput> npy_output(const std::string& file, std::size_t dimensions,
                                         const Json& key) {
  return std::make_unique<NpyOutput>(file, dimensions, key);
}
std::unique_ptr<VectorOutput> json_output(const std::string& file, const Json& key) {
  return std::make_unique<JsonFile>(file, key);
}
std::unique_ptr<VectorOutput> json_output(std::ostream& out) {
  return std::make_unique<JsonStream>(out);
}

}  // namespace sluice::cli

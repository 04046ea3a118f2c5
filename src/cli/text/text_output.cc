#include "cli/text/text_output.h"

#include <fstream>

#include "base/error.h"
#include "formats/npy/npy_header.h"

namespace sluice::cli {
namespace {

class ToStream final : public TextOutput {
 public:
  explicit ToStream(std::ostream& out) : out_(out) {}

  void add(std::string_view bytes) override { out_ << bytes; }
  void save(const Json&) override { out_.flush(); }
  void finish() override {
    if (!out_.flush()) throw Error(Code::unavailable, "what reads the output has gone");
  }

 private:
  std::ostream& out_;
};

class ToSpecial final : public TextOutput {
 public:
  explicit ToSpecial(const std::string& file) : out_(file, std::ios::binary), to_(out_) {
    if (!out_) throw Error(Code::unavailable, "cannot write " + file);
  }

  void add(std::string_view bytes) override { to_.add(bytes); }
  void save(const Json& state) override { to_.save(state); }
  void finish() override { to_.finish(); }

 private:
  std::ofstream out_;
  ToStream to_;
};

class ToFile : public TextOutput {
 public:
  ToFile(const std::string& file, const Json& key) : file_(file, key) {}

  void add(std::string_view bytes) override {
    waiting_ += bytes;
    if (waiting_.size() >= kBuffer) flush();
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

 protected:
  void flush() {
    file_.write(waiting_);
    waiting_.clear();
  }

  ResumableFile file_;

 private:
  static constexpr std::size_t kBuffer = 1 << 20;

  std::string waiting_;
};

class ToNpy final : public ToFile {
 public:
  ToNpy(const std::string& file, std::size_t columns, const Json& key)
      : ToFile(file, key), columns_(columns) {
    if (file_.size() == 0) file_.write(header(0));
  }

  void finish() override {
    flush();
    const std::size_t begin = header(0).size(), row = columns_ * sizeof(float);
    const std::string now = header((file_.size() - begin) / row);
    if (now.size() != begin) throw Error(Code::internal, "a header that grew");
    file_.write_at(0, now);
    ToFile::finish();
  }

 private:
  // Of the same size for any number of rows, since it is padded to 64 bytes.
  std::string header(std::size_t rows) const {
    const std::int64_t shape[] = {static_cast<std::int64_t>(rows),
                                  static_cast<std::int64_t>(columns_)};
    return npy::write_header("<f4", shape);
  }

  std::size_t columns_;
};

}  // namespace

const TextOutput::Json& TextOutput::state() const {
  static const Json none;
  return none;
}

std::unique_ptr<TextOutput> output_to(std::ostream& out) { return std::make_unique<ToStream>(out); }
std::unique_ptr<TextOutput> output_to_special(const std::string& file) {
  return std::make_unique<ToSpecial>(file);
}
std::unique_ptr<TextOutput> output_to_file(const std::string& file, const TextOutput::Json& key) {
  return std::make_unique<ToFile>(file, key);
}
std::unique_ptr<TextOutput> output_to_npy(const std::string& file, std::size_t columns,
                                          const TextOutput::Json& key) {
  return std::make_unique<ToNpy>(file, columns, key);
}

}  // namespace sluice::cli

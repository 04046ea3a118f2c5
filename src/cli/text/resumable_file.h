// A file that is written over a long time, possibly by several runs: until it is finished it is
// OUT.partial, with OUT.progress beside it, which says how far it is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

namespace sluice::cli {

class ResumableFile {
 public:
  using Json = nlohmann::ordered_json;

  // Goes on with what an earlier run with an equal `key` wrote, else begins anew. Throws
  // unavailable if it cannot be written, or another run is writing it.
  ResumableFile(std::filesystem::path out, Json key);
  ~ResumableFile();
  ResumableFile(const ResumableFile&) = delete;
  ResumableFile& operator=(const ResumableFile&) = delete;

  const Json& state() const noexcept { return state_; }  // of the last save(); null: a new file
  std::uint64_t size() const noexcept { return size_; }

  void write(std::string_view bytes);  // at the end
  void write_at(std::uint64_t offset, std::string_view bytes);
  // What is written so far stays, even if the process or the machine ends now.
  void save(Json state);
  // The file gets its name.
  void finish();

 private:
  bool resume();
  void open_locked();
  void cut(std::uint64_t size);
  [[noreturn]] void fail(std::string_view what) const;

  const std::filesystem::path out_, partial_, progress_;
  const Json key_;
  Json state_;
  std::uint64_t size_ = 0;
  int fd_ = -1;
};

}  // namespace sluice::cli

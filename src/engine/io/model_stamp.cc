#include "engine/io/model_stamp.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/file_to_read.h"
#include "engine/io/content_hash.h"
#include "engine/io/hf_folder.h"
#include "formats/map.h"
#include "formats/onnx/external_files.h"

namespace sluice::engine {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kSamples = 16, kSample = 4096;

std::string stamp_of(std::string_view bytes) { return fmt::format("{:016x}", plan_hash(bytes)); }

// Hashes samples of a file, or all of a small one. Reads instead of mapping, because the file may
// be truncated meanwhile.
std::string hash_of_samples(const fs::path& file) {
  const int fd = open_to_read(file);
  if (fd < 0) return "none";
  struct stat status {};
  ::fstat(fd, &status);
  const auto size = static_cast<std::size_t>(status.st_size);
  const bool small = size <= kSamples * kSample;
  std::string bytes(small ? size : kSamples * kSample, '\0');
  for (std::size_t i = 0; i < bytes.size(); i += kSample) {
    const std::size_t sample = i / kSample, length = std::min(kSample, bytes.size() - i);
    const std::size_t at = small ? i : sample_offset(size, sample);
    if (::pread(fd, bytes.data() + i, length, static_cast<off_t>(at)) < 0) break;
  }
  ::close(fd);
  return stamp_of(bytes);
}

std::string hash_of_all(const fs::path& file) {
  std::shared_ptr<const void> keep;
  return stamp_of(map_file(file, keep));
}

// The path of a model file relative to the model.
std::string name_from(const fs::path& model, const fs::path& file) {
  const auto whole = [](const fs::path& path) {
    std::error_code error;
    fs::path made = fs::canonical(path, error);
    if (error)
      throw Error(Code::not_found, "cannot open '" + path.string() + "': " + error.message());
    return made;
  };
  std::error_code ignored;
  const fs::path above = model.has_parent_path() ? model.parent_path() : fs::path(".");
  const fs::path base = whole(fs::is_directory(model, ignored) ? model : above);
  return whole(file).lexically_relative(base).string();
}

std::string version_of(const fs::path& file) {
  struct stat s {};
  if (::stat(file.c_str(), &s) != 0) return "none";
  return fmt::format("{} {} {}.{} {}.{}", s.st_ino, s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec,
                     s.st_ctim.tv_sec, s.st_ctim.tv_nsec);
}

}  // namespace

std::size_t sample_offset(std::size_t size, std::size_t sample) {
  const std::size_t last = size - kSample;  // `last * sample` could overflow
  return last / (kSamples - 1) * sample + last % (kSamples - 1) * sample / (kSamples - 1);
}

std::vector<fs::path> model_files(const fs::path& path) {
  if (!is_there(path))
    throw Error(Code::not_found, "cannot open '" + path.string() + "': it is not there");
  std::error_code error;
  const bool folder = fs::is_directory(path, error);
  if (folder && !is_there(path / "model.onnx")) {
    if (!is_there(path / "config.json")) return {};
    return HfFolder::files(path);
  }
  const fs::path file = folder ? path / "model.onnx" : path;
  std::vector<fs::path> files = onnx::external_files(file);
  files.insert(files.begin(), file);
  return files;
}

std::string model_version(const fs::path& path) {
  std::error_code error;
  std::string about = fs::absolute(path, error).string();
  for (const fs::path& file : model_files(path))
    about += "\n" + file.string() + " " + version_of(file);
  return stamp_of(about);
}

void require_version(const fs::path& path, std::string_view version) {
  if (model_version(path) != version)
    throw Error(Code::exhausted,
                path.string() + ": it was changed while it was read: try again when that is over");
}

std::string model_stamp(const fs::path& path) {
  std::string about = model_version(path);
  for (const fs::path& file : model_files(path)) about += "\n" + hash_of_samples(file);
  return stamp_of(about);
}

std::string model_content(const fs::path& path) {
  std::string about;
  for (const fs::path& file : model_files(path))
    about += name_from(path, file) + " " + hash_of_all(file) + "\n";
  return stamp_of(about);
}

}  // namespace sluice::engine

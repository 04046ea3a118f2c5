#include "models/registry/registry.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/ascii.h"
#include "base/error.h"
#include "base/file_to_read.h"
#include "base/new_file.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "formats/map.h"
#include "models/config/config_files.h"
#include "models/registry/sha256.h"

namespace sluice::models {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "sluice-model.json";
constexpr std::size_t kMaxName = 100, kMaxFiles = 10'000, kBlock = 1 << 20;
constexpr std::size_t kMaxReadme = 1 << 20, kMaxRef = 4 << 10;  // bytes

[[noreturn]] void refuse(const std::string& why) { throw Error(Code::invalid_argument, why); }

void require_name(const std::string& name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  require(!name.empty() && name.size() <= kMaxName && name[0] != '.' &&
              std::ranges::all_of(name, is_plain),
          fmt::format("{} is no name of a model: letters, digits, '.', '_' and '-', at most {}",
                      in_quotes(name), kMaxName));
}

// Weights that other frameworks read.
bool is_left_out(const fs::path& path) {
  const std::string name = path.filename().string(), end = path.extension().string();
  return name.starts_with('.') || name == kManifest || end == ".h5" || end == ".ot" ||
         end == ".msgpack" || end == ".bin" || end == ".pt" || end == ".pth" || end == ".tflite" ||
         end == ".mlmodel" || name == "onnx" || name == "openvino" || name == "coreml";
}

// The files to copy, by their path in the folder, with their sizes.
std::vector<std::pair<fs::path, std::uint64_t>> files_in(const fs::path& folder) {
  std::vector<std::pair<fs::path, std::uint64_t>> files;
  for (auto entry = fs::recursive_directory_iterator(folder);
       entry != fs::recursive_directory_iterator(); ++entry) {
    if (is_left_out(entry->path())) {
      if (entry->is_directory()) entry.disable_recursion_pending();
      continue;
    }
    if (!entry->is_regular_file()) continue;
    const fs::path path = entry->path().lexically_relative(folder);
    if (first_invalid_utf8(path.native()))  // the manifest is JSON
      refuse(printable("the name of this file is not UTF-8: " + (folder / path).native()) +
             "; rename or remove it");
    files.emplace_back(path, entry->file_size());
    require(files.size() <= kMaxFiles, folder.string() + " has too many files for a model");
  }
  std::ranges::sort(files);
  return files;
}

// Reads a file of so many bytes in blocks; returns its hash. A file of /proc has more bytes than
// its size says, perhaps without end, and another one may grow meanwhile.
template <class Block>
std::string hash_of(const fs::path& file, std::uint64_t bytes, const Block& block) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Error(Code::unavailable, "cannot read " + file.string());
  Sha256 hash;
  std::string buffer(kBlock, '\0');
  while (in) {
    in.read(buffer.data(), kBlock);
    const std::string_view got(buffer.data(), static_cast<std::size_t>(in.gcount()));
    if (got.size() > bytes)
      throw Error(Code::unavailable, file.string() +
                                         " has more bytes than its size: it grows, or is "
                                         "no ordinary file; remove it from the model");
    bytes -= got.size();
    hash.add(got);
    block(got);
  }
  if (in.bad()) throw Error(Code::unavailable, "cannot read " + file.string());
  return hash.finish();
}

// "license: apache-2.0" between the first two lines of "---". None where the README is no file: a
// FIFO or a device may have no end.
std::string license_in(const fs::path& readme) {
  std::istringstream in(read_named_file(readme, kMaxReadme).value_or(""));
  std::string line;
  if (!std::getline(in, line) || line != "---") return "";
  for (int i = 0; i < 200 && std::getline(in, line) && line != "---"; ++i)
    if (line.starts_with("license:")) {
      line.erase(0, line.find_first_not_of(' ', std::string_view("license:").size()));
      return line.size() < kMaxName ? printable(line) : "";
    }
  return "";
}

Json json_of(const RegisteredModel& model) {
  Json files = Json::array();
  for (const RegisteredFile& file : model.files)
    files.push_back({{"path", file.path}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  return {{"name", model.name},
          {"source", model.source},
          {"license", model.license},
          {"added", model.added},
          {"files", std::move(files)}};
}

RegisteredModel read_manifest(const fs::path& folder) {
  const fs::path file = folder / kManifest;
  const Json json = object_in(file);
  try {
    RegisteredModel model{.name = json.at("name"),
                          .source = json.at("source"),
                          .license = json.at("license"),
                          .added = json.at("added"),
                          .files = {},
                          .folder = folder};
    for (const Json& one : json.at("files"))
      model.files.push_back({one.at("path"), one.at("bytes"), one.at("sha256")});
    return model;
  } catch (const Json::exception&) {
    refuse(file.string() + " is damaged: remove the model and add it again");
  }
}

// A folder that is removed again, unless it is kept.
class Unfinished {
 public:
  explicit Unfinished(fs::path folder) : folder_(std::move(folder)) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Unfinished() {
    std::error_code ignored;
    if (!folder_.empty()) fs::remove_all(folder_, ignored);
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  const fs::path& folder() const noexcept { return folder_; }
  void keep_as(const fs::path& name) {
    fs::rename(folder_, name);
    folder_.clear();
  }

 private:
  fs::path folder_;
};

}  // namespace

std::uint64_t RegisteredModel::bytes() const {
  std::uint64_t all = 0;
  for (const RegisteredFile& file : files) all += file.bytes;
  return all;
}

RegisteredModel Registry::add(const fs::path& source, const std::string& name,
                              const Progress& progress) const {
  require_name(name);
  if (!fs::is_directory(source)) throw Error(Code::not_found, source.string() + " is no folder");
  if (find(name))
    refuse(fmt::format("there is a model {} already: sluice model remove {}", name, name));
  const auto files = files_in(source);
  const bool is_model = std::ranges::any_of(files, [](const auto& file) {
    return file.first.extension() == ".safetensors" || file.first.extension() == ".onnx";
  });
  if (!is_model)
    throw Error(Code::not_found, source.string() + " has neither .safetensors nor .onnx files");
  RegisteredModel model{
      .name = name,
      .source = printable(fs::canonical(source).string()),
      .license = license_in(source / "README.md"),
      .added = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))),
      .files = {},
      .folder = folder_ / name};
  std::uint64_t all = 0, done = 0;
  for (const auto& [path, bytes] : files) all += bytes;
  try {
    Unfinished making(folder_ / fmt::format(".adding-{}-{}", name, ::getpid()));
    for (const auto& [path, bytes] : files) {
      NewFile copy(making.folder() / path);
      std::uint64_t size = 0;
      const std::string hash = hash_of(source / path, bytes, [&](std::string_view block) {
        copy.write(block);
        size += block.size();
        if (progress) progress(std::min(done + size, all), all);
      });
      copy.keep();
      done += bytes;
      model.files.push_back({path.string(), size, hash});
    }
    NewFile manifest(making.folder() / kManifest);
    manifest.write(json_of(model).dump(2) + "\n");
    manifest.keep();
    making.keep_as(model.folder);
  } catch (const fs::filesystem_error& error) {
    throw Error(Code::unavailable, error.what());
  }
  return model;
}

std::vector<RegisteredModel> Registry::list() const {
  std::vector<RegisteredModel> models;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error))
    if (is_there(entry.path() / kManifest) && !entry.path().filename().string().starts_with('.'))
      models.push_back(read_manifest(entry.path()));
  std::ranges::sort(models, {}, &RegisteredModel::name);
  return models;
}

std::optional<RegisteredModel> Registry::find(const std::string& name) const {
  require_name(name);
  if (!is_there(folder_ / name / kManifest)) return std::nullopt;
  return read_manifest(folder_ / name);
}

void Registry::remove(const std::string& name) const {
  if (!find(name)) throw Error(Code::not_found, "there is no model " + in_quotes(name));
  std::error_code error;
  fs::remove_all(folder_ / name, error);
  if (error)
    throw Error(Code::unavailable,
                fmt::format("cannot remove {}: {}", (folder_ / name).string(), error.message()));
}

std::vector<std::string> Registry::verify(const RegisteredModel& model,
                                          const Progress& progress) const {
  std::vector<std::string> problems;
  std::uint64_t done = 0;
  const std::uint64_t all = model.bytes();
  for (const RegisteredFile& file : model.files) {
    const fs::path path = model.folder / file.path;
    if (!is_there(path)) {
      problems.push_back(file.path + " is missing");
      continue;
    }
    if (!fs::is_regular_file(path)) {  // a FIFO would wait for a writer
      problems.push_back(file.path + " is no regular file");
      continue;
    }
    const std::string hash = hash_of(path, fs::file_size(path), [&](std::string_view block) {
      done += block.size();
      if (progress) progress(std::min(done, all), all);
    });
    if (hash != file.sha256) problems.push_back(file.path + " has other contents");
  }
  return problems;
}

namespace {

// The first word of refs/main; empty where there is no such file.
std::string main_ref_in(const fs::path& folder) {
  const fs::path file = folder / "refs" / "main";
  const auto text = read_named_file(file, kMaxRef + 1);
  const int why = errno;
  if (!text && (why == ENOENT || why == ENOTDIR)) return "";
  const std::string name = printable(file.native());
  if (text ? text->size() > kMaxRef : why == EINVAL || why == EISDIR)
    refuse(
        fmt::format("{} is not a regular file of at most {} bytes: give the model's own folder, "
                    "below snapshots",
                    name, kMaxRef));
  if (!text)
    throw Error(Code::unavailable, fmt::format("cannot read {}: {}", name, std::strerror(why)));
  std::string hash;
  std::istringstream(*text) >> hash;
  return hash;
}

// What a hub's cache calls main: models--OWNER--NAME/snapshots/HASH. Other folders as they are.
fs::path snapshot_in(const fs::path& folder) {
  const std::string hash = main_ref_in(folder);
  const fs::path snapshot = folder / "snapshots" / hash;
  const bool is_one = !hash.empty() && hash.find('/') == std::string::npos && hash[0] != '.';
  std::error_code error;
  return is_one && fs::is_directory(snapshot, error) ? snapshot : folder;
}

}  // namespace

fs::path find_model(const std::string& path_or_name, const Registry& registry) {
  std::error_code error;
  if (fs::is_regular_file(path_or_name, error)) {
    const std::string parent = fs::path(path_or_name).parent_path().string();
    refuse(fmt::format("{} is a file: give the folder that holds it{}", path_or_name,
                       parent.empty() ? "" : ", " + parent));
  }
  if (fs::exists(path_or_name, error)) return snapshot_in(path_or_name);
  const bool may_be_name = path_or_name.find('/') == std::string::npos;
  if (may_be_name)
    if (const auto model = registry.find(path_or_name)) return model->folder;
  std::string known;
  for (const RegisteredModel& model : registry.list())
    known += (known.empty() ? "" : ", ") + model.name;
  throw Error(
      Code::not_found,
      fmt::format("there is no folder {}, and no model of that name{}", in_quotes(path_or_name),
                  known.empty()
                      ? "; sluice model add FOLDER keeps one under a name. A hub's model: "
                        "huggingface-cli download OWNER/NAME --local-dir FOLDER"
                      : "; models are " + known));
}

}  // namespace sluice::models

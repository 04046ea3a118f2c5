#include "device/demo/demo.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/nearest.h"
#include "device/demo/demo_files.h"

namespace sluice::device {

namespace {

std::span<const DemoFile> scenarios() { return demo_files().subspan(1); }

// A path to the file of `fd` that no other file's is equal to. The loader takes two
// equal paths for one library, and descriptor numbers come back; so the file's own
// number is spelt into the path, a bit per step, as "/." or "/".
std::string unique_path(int fd) {
  struct stat file {};
  fstat(fd, &file);
  std::string path = "/proc/self/fd";
  for (auto bits = file.st_ino; bits != 0; bits >>= 1) path += (bits & 1) != 0 ? "/." : "/";
  return path + "/" + std::to_string(fd);
}

// A separate memory file for each demo, so that two demos do not share one library. The loader maps
// it, so the descriptor may be closed afterwards.
void* open_fake_library() {
  const std::string_view image = demo_files()[0].bytes();
  const int fd = memfd_create("libnvidia-ml.so.1", MFD_CLOEXEC);
  if (fd < 0)
    throw Error(Code::unavailable,
                std::string("no memory file for the demo library: ") + std::strerror(errno));
  std::size_t written = 0;
  while (written < image.size()) {
    const ssize_t n = write(fd, image.data() + written, image.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    written += static_cast<std::size_t>(n);
  }
  const std::string path = unique_path(fd);
  void* library = written == image.size() ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  const char* reason = library == nullptr ? dlerror() : nullptr;
  close(fd);
  if (library == nullptr)
    throw Error(Code::unavailable, std::string("the demo library does not load: ") +
                                       (reason == nullptr ? std::strerror(errno) : reason));
  return library;
}

[[noreturn]] void unknown_scenario(const std::string& name) {
  std::vector<std::string_view> names;
  std::string list;
  for (const DemoFile& file : scenarios()) {
    names.push_back(file.name);
    list += (list.empty() ? "" : ", ") + std::string(file.name);
  }
  throw Error(Code::invalid_argument, "no demo scenario or file '" + name + "'" +
                                          did_you_mean(name, names) + "; there are: " + list);
}

template <class F>
F* function(void* library, const char* name) {
  return reinterpret_cast<F*>(dlsym(library, name));
}

}  // namespace

std::vector<std::string> demo_names() {
  std::vector<std::string> names;
  for (const DemoFile& file : scenarios()) names.emplace_back(file.name);
  return names;
}

std::string demo_scenario(const std::string& name) {
  for (const DemoFile& file : scenarios())
    if (file.name == name) return std::string(file.bytes());
  std::ifstream in(name);
  std::stringstream text;
  if (!in || !(text << in.rdbuf())) unknown_scenario(name);
  return text.str();
}

std::unique_ptr<Nvml> open_demo(const std::string& name, const DemoOptions& options) {
  const std::string json = demo_scenario(name);
  void* library = open_fake_library();
  const auto load = function<int(const char*, std::size_t, std::int64_t, const char*)>(
      library, "sluice_fake_nvml_load");
  const auto error = function<const char*()>(library, "sluice_fake_nvml_error");
  if (load(json.data(), json.size(), options.epoch_ns.value_or(0), options.state_file.c_str()) !=
      0) {
    const std::string why = error();
    dlclose(library);
    throw Error(Code::invalid_argument, "demo '" + name + "': " + why);
  }
  return Nvml::adopt(library);
}

std::optional<bool> demo_canary(const Nvml& nvml, const std::string& uuid) {
  void* symbol = nvml.symbol("sluice_fake_nvml_canary");
  if (symbol == nullptr) return std::nullopt;
  const int result = reinterpret_cast<int (*)(const char*)>(symbol)(uuid.c_str());
  return result < 0 ? std::nullopt : std::optional(result == 1);
}

void freeze_demo(const Nvml& nvml, double seconds) {
  void* symbol = nvml.symbol("sluice_fake_nvml_freeze");
  require(symbol != nullptr, "only a demo's clock can be stopped");
  reinterpret_cast<void (*)(double)>(symbol)(seconds);
}

}  // namespace sluice::device

#include "device/doctor/doctor_libraries.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "device/library.h"

namespace sluice::device {

namespace {

// 91300 is 9.13.0 and 130100 is 13.1.0; cuDNN 8 and NCCL before 2.9 counted in
// thousands.
std::string of_number(std::size_t n) {
  if (n >= 10'000) return fmt::format("{}.{}.{}", n / 10'000, n / 100 % 100, n % 100);
  return fmt::format("{}.{}.{}", n / 1000, n / 100 % 10, n % 100);
}

std::string cuda_version(const Library& library) {
  int version = 0;
  if (library.find<int(int*)>("cuDriverGetVersion")(&version) != 0) return "of unknown version";
  return fmt::format("{}.{}", version / 1000, version / 10 % 100);
}

std::string cublaslt_version(const Library& library) {
  return of_number(library.find<std::size_t()>("cublasLtGetVersion")());
}

std::string cudnn_version(const Library& library) {
  return of_number(library.find<std::size_t()>("cudnnGetVersion")());
}

std::string nccl_version(const Library& library) {
  int version = 0;
  if (library.find<int(int*)>("ncclGetVersion")(&version) != 0) return "of unknown version";
  return of_number(static_cast<std::size_t>(version));
}

std::string nvrtc_version(const Library& library) {
  int major = 0, minor = 0;
  if (library.find<int(int*, int*)>("nvrtcVersion")(&major, &minor) != 0)
    return "of unknown version";
  return fmt::format("{}.{}", major, minor);
}

// The version is from the file name: a call to the library would initialize it, which may hang.
std::string nvml_version(const Library&) {
  auto version = nvml_file_version();
  return version.empty() ? "of unknown version" : version;
}

struct KnownLibrary {
  std::string_view name;
  std::array<std::string_view, 3> files;  // newest first; "" ends the list
  std::string (*version)(const Library&);
  bool of_driver;
};

constexpr KnownLibrary kKnownLibraries[] = {
    {"libcuda", {"libcuda.so.1"}, cuda_version, true},
    {"NVML", {"libnvidia-ml.so.1", "libnvidia-ml.so"}, nvml_version, true},
    {"cuBLASLt",
     {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"},
     cublaslt_version,
     false},
    {"cuDNN", {"libcudnn.so.9", "libcudnn.so.8"}, cudnn_version, false},
    {"NCCL", {"libnccl.so.2"}, nccl_version, false},
    {"NVRTC", {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"}, nvrtc_version, false},
};

LibraryFacts look_for(const KnownLibrary& library, std::span<const std::string> dirs) {
  LibraryFacts facts{std::string(library.name), {}, {}, library.of_driver};
  const std::span files(library.files.begin(), std::ranges::find(library.files, ""));
  try {
    facts.version = library.version(Library(files, dirs));
  } catch (const Error& e) {
    facts.problem = e.reason();
  }
  return facts;
}

}  // namespace

std::vector<LibraryFacts> find_libraries(std::span<const std::string> dirs) {
  std::vector<LibraryFacts> found;
  for (const auto& library : kKnownLibraries) found.push_back(look_for(library, dirs));
  return found;
}

std::string nvml_file_version() {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return {};
  Dl_info where{};
  std::string version;
  if (const auto* symbol = dlsym(library, "nvmlInit_v2");
      symbol != nullptr && dladdr(symbol, &where) != 0 && where.dli_fname != nullptr) {
    std::error_code failed;
    const auto file = std::filesystem::canonical(where.dli_fname, failed).filename().string();
    constexpr std::string_view kStart = "libnvidia-ml.so.";
    if (!failed && file.starts_with(kStart) && file.find('.', kStart.size()) != std::string::npos)
      version = file.substr(kStart.size());
  }
  dlclose(library);
  return version;
}

}  // namespace sluice::device

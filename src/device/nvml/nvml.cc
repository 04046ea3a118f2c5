#include "device/nvml/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "device/nvml/nvml_functions.h"

namespace sluice::device {

namespace nvml {

namespace {

thread_local CallObserver* this_threads_observer = nullptr;

struct Text {
  Return code;
  const char* text;
};

constexpr Text kTexts[] = {
    {Return::success, "success"},
    {Return::uninitialized, "NVML is not initialised"},
    {Return::invalid_argument, "invalid argument"},
    {Return::not_supported, "not supported"},
    {Return::no_permission, "no permission"},
    {Return::already_initialized, "already initialised"},
    {Return::not_found, "not found"},
    {Return::insufficient_size, "buffer too small"},
    {Return::insufficient_power, "a power cable is missing"},
    {Return::driver_not_loaded, "the NVIDIA driver is not loaded"},
    {Return::timeout, "timed out"},
    {Return::irq_issue, "interrupt problem"},
    {Return::library_not_found, "library not found"},
    {Return::function_not_found, "this driver has no such function"},
    {Return::corrupted_inforom, "the card's infoROM is corrupted"},
    {Return::gpu_is_lost, "the GPU is lost"},
    {Return::reset_required, "the GPU needs a reset"},
    {Return::operating_system, "blocked by the operating system"},
    {Return::lib_rm_version_mismatch, "driver and library versions differ"},
    {Return::in_use, "the GPU is in use"},
    {Return::memory, "out of host memory"},
    {Return::no_data, "no data"},
    {Return::vgpu_ecc_not_supported, "not supported with ECC on a vGPU"},
    {Return::insufficient_resources, "out of resources"},
    {Return::freq_not_supported, "clock not supported"},
    {Return::argument_version_mismatch, "struct version not accepted by this driver"},
    {Return::deprecated, "no longer supported by this driver"},
    {Return::not_ready, "not ready"},
    {Return::gpu_not_found, "no such GPU"},
    {Return::invalid_state, "not possible in this state"},
    {Return::reset_type_not_supported, "this kind of reset is not supported"},
    {Return::unknown, "unknown error"},
};

}  // namespace

const char* describe(Return code) noexcept {
  const auto* found =
      std::find_if(std::begin(kTexts), std::end(kTexts), [=](Text t) { return t.code == code; });
  return found == std::end(kTexts) ? "unknown error" : found->text;
}

CallObserver* observer() noexcept { return this_threads_observer; }

std::string normalize_bus(std::string bus) {
  std::transform(bus.begin(), bus.end(), bus.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto colon = bus.find(':');
  if (colon == 8 && bus.compare(0, 4, "0000") == 0) bus.erase(0, 4);
  return bus;
}

}  // namespace nvml

CallScope::CallScope(CallObserver& observer) noexcept
    : previous_(std::exchange(nvml::this_threads_observer, &observer)) {}

CallScope::~CallScope() { nvml::this_threads_observer = previous_; }

namespace {

struct CloseLibrary {
  void operator()(void* library) const noexcept { dlclose(library); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

constexpr const char* kNames[] = {"libnvidia-ml.so.1", "libnvidia-ml.so"};

// A library that exists but does not load has more to say than "no such file".
bool is_missing(const std::string& dl_error) {
  return dl_error.find("No such file") != std::string::npos;
}

Library open_library(const std::string& path) {
  if (!path.empty()) {
    if (void* found = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return Library(found);
    throw Error(Code::unavailable, "cannot open " + path + ": " + dlerror());
  }
  std::string first_reason;
  for (const char* name : kNames) {
    if (void* found = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return Library(found);
    if (first_reason.empty()) first_reason = dlerror();
  }
  if (!is_missing(first_reason))
    throw Error(Code::unavailable, "libnvidia-ml.so.1 does not load: " + first_reason);
  throw Error(Code::unavailable,
              "libnvidia-ml.so.1 not found: no NVIDIA driver is installed here, or this container "
              "was started without the NVIDIA container toolkit (docker run --gpus all)");
}

std::string advice(nvml::Return code) {
  switch (code) {
    case nvml::Return::lib_rm_version_mismatch:
      return "the driver was upgraded while its old kernel module stays loaded: stop every GPU "
             "program and reload the nvidia modules (rmmod nvidia_uvm nvidia_drm nvidia_modeset "
             "nvidia && modprobe nvidia), or reboot";
    case nvml::Return::no_permission:
      return "this user may not open /dev/nvidiactl: add it to the group that owns the device "
             "nodes (video or render), or allow the nodes in the container";
    case nvml::Return::driver_not_loaded:
      return "load it with 'modprobe nvidia'; if that fails, 'dmesg | grep -i nvidia' says why "
             "(often a kernel update without a rebuilt module, or Secure Boot)";
    case nvml::Return::function_not_found:
      return "this libnvidia-ml.so is not NVML or is older than driver 319";
    default:
      return "'nvidia-smi' should show the same problem; 'dmesg | grep NVRM' has the driver's side";
  }
}

}  // namespace

Nvml::Nvml(void* library)
    : library_(library), nvml_(std::make_unique<const nvml::Functions>(library)) {}

std::unique_ptr<Nvml> Nvml::open(const std::string& path) {
  return adopt(open_library(path).release());
}

bool Nvml::is_installed() {
  return std::any_of(std::begin(kNames), std::end(kNames), [](const char* name) {
    return Library(dlopen(name, RTLD_LAZY | RTLD_LOCAL)) != nullptr || !is_missing(dlerror());
  });
}

std::unique_ptr<Nvml> Nvml::adopt(void* library) {
  Library owned(library);
  auto result = std::unique_ptr<Nvml>(new Nvml(library));
  const nvml::Return code = result->nvml_->init();
  if (code != nvml::Return::success) {
    result->library_ = nullptr;  // not initialised: nothing to shut down
    throw Error(Code::unavailable,
                std::string("NVML does not start: ") + nvml::describe(code) + "; " + advice(code));
  }
  owned.release();
  return result;
}

Nvml::~Nvml() {
  if (library_ == nullptr) return;
  nvml_->shutdown();
  dlclose(library_);
}

void* Nvml::symbol(const char* name) const noexcept { return dlsym(library_, name); }

}  // namespace sluice::device

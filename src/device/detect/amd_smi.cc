// The library's structs have changed between releases, so nothing here depends on
// their size: text is taken from the first member, which has stayed, out of a
// buffer larger than any release's struct.
#include "device/detect/amd_smi.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <memory>

namespace sluice::device {

namespace {

using Status = int;  // amdsmi_status_t; 0 is success
using Handle = void*;
constexpr std::uint64_t kInitGpus = 1 << 1;
constexpr int kVram = 0;
constexpr std::uint32_t kMaxHandles = 256;

struct Close {
  void operator()(void* library) const noexcept { dlclose(library); }
};
using Opened = std::unique_ptr<void, Close>;

struct Functions {
  Status (*init)(std::uint64_t) = nullptr;
  Status (*shut_down)() = nullptr;
  Status (*sockets)(std::uint32_t*, Handle*) = nullptr;
  Status (*processors)(Handle, std::uint32_t*, Handle*) = nullptr;
  Status (*bdf)(Handle, std::uint64_t*) = nullptr;
  Status (*uuid)(Handle, unsigned*, char*) = nullptr;
  Status (*asic)(Handle, void*) = nullptr;
  Status (*driver)(Handle, void*) = nullptr;
  Status (*memory)(Handle, int, std::uint64_t*) = nullptr;
};

template <class F>
void load(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
}

Functions load_all(void* library) {
  Functions f;
  load(library, "amdsmi_init", f.init);
  load(library, "amdsmi_shut_down", f.shut_down);
  load(library, "amdsmi_get_socket_handles", f.sockets);
  load(library, "amdsmi_get_processor_handles", f.processors);
  load(library, "amdsmi_get_gpu_device_bdf", f.bdf);
  load(library, "amdsmi_get_gpu_device_uuid", f.uuid);
  load(library, "amdsmi_get_gpu_asic_info", f.asic);
  load(library, "amdsmi_get_gpu_driver_info", f.driver);
  load(library, "amdsmi_get_gpu_memory_total", f.memory);
  return f;
}

std::string first_text(Status (*function)(Handle, void*), Handle handle) {
  alignas(16) std::array<char, 8192> buffer{};
  if (function == nullptr || function(handle, buffer.data()) != 0) return {};
  buffer.back() = '\0';
  std::string text(buffer.data());
  return text == "N/A" ? std::string() : text;
}

// Bits 0-2 function, 3-7 device, 8-15 bus, the rest domain.
std::string bus_text(std::uint64_t bdf) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", bdf >> 16, bdf >> 8 & 0xff, bdf >> 3 & 0x1f,
                     bdf & 7);
}

AmdDevice describe(const Functions& f, Handle handle) {
  AmdDevice device;
  if (std::uint64_t bdf = 0; f.bdf(handle, &bdf) == 0) device.bus = bus_text(bdf);
  std::array<char, 256> uuid{};
  unsigned length = uuid.size();
  if (f.uuid != nullptr && f.uuid(handle, &length, uuid.data()) == 0) {
    uuid.back() = '\0';
    device.uuid = uuid.data();
  }
  device.name = first_text(f.asic, handle);
  device.driver = first_text(f.driver, handle);
  if (std::uint64_t bytes = 0;
      f.memory != nullptr && f.memory(handle, kVram, &bytes) == 0 && bytes > 0)
    device.memory_total = bytes;
  return device;
}

// Both lists are read twice: for the count, then for that many.
std::vector<Handle> socket_handles(const Functions& f) {
  std::uint32_t count = 0;
  if (f.sockets(&count, nullptr) != 0 || count > kMaxHandles) return {};
  std::vector<Handle> handles(count);
  if (count == 0 || f.sockets(&count, handles.data()) != 0) return {};
  handles.resize(std::min<std::size_t>(count, handles.size()));
  return handles;
}

std::vector<Handle> processor_handles(const Functions& f, Handle socket) {
  std::uint32_t count = 0;
  if (f.processors(socket, &count, nullptr) != 0 || count > kMaxHandles) return {};
  std::vector<Handle> handles(count);
  if (count == 0 || f.processors(socket, &count, handles.data()) != 0) return {};
  handles.resize(std::min<std::size_t>(count, handles.size()));
  return handles;
}

}  // namespace

AmdAnswers ask_amd_smi(const std::string& path) {
  AmdAnswers answers;
  const Opened library(dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL));
  if (!library) {
    answers.problem = path + " not found";
    return answers;
  }
  const auto f = load_all(library.get());
  if (!f.init || !f.shut_down || !f.sockets || !f.processors || !f.bdf) {
    answers.problem = path + " lacks the functions we need; update ROCm";
    return answers;
  }
  if (const auto status = f.init(kInitGpus); status != 0) {
    answers.problem = fmt::format("{} failed to initialise (status {})", path, status);
    return answers;
  }
  for (auto* socket : socket_handles(f))
    for (auto* handle : processor_handles(f, socket))
      answers.devices.push_back(describe(f, handle));
  f.shut_down();
  if (answers.devices.empty()) answers.problem = path + " lists no GPU";
  return answers;
}

}  // namespace sluice::device

// A libamd_smi for tests: one socket with two GPUs, of which the second answers
// nothing but its place on the bus. The environment variable FAKE_AMD_SMI=broken
// makes initialisation fail.
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

int sockets_marker, gpu_a, gpu_b;

bool started = false;

int list(std::uint32_t* count, void** handles, void* const* all, std::uint32_t have) {
  if (!started) return 32;  // AMDSMI_STATUS_NOT_INIT
  if (handles != nullptr)
    for (std::uint32_t i = 0; i < have && i < *count; ++i) handles[i] = all[i];
  *count = have;
  return 0;
}

}  // namespace

extern "C" {

int amdsmi_init(std::uint64_t flags) {
  const char* mode = std::getenv("FAKE_AMD_SMI");
  if (mode != nullptr && std::strcmp(mode, "broken") == 0) return 34;
  started = flags == 2;
  return started ? 0 : 1;
}

int amdsmi_shut_down() {
  started = false;
  return 0;
}

int amdsmi_get_socket_handles(std::uint32_t* count, void** handles) {
  void* const all[] = {&sockets_marker};
  return list(count, handles, all, 1);
}

int amdsmi_get_processor_handles(void* socket, std::uint32_t* count, void** handles) {
  if (socket != &sockets_marker) return 1;
  void* const all[] = {&gpu_a, &gpu_b};
  return list(count, handles, all, 2);
}

int amdsmi_get_gpu_device_bdf(void* gpu, std::uint64_t* bdf) {
  *bdf = gpu == &gpu_a ? 0xc300 : 0xc600;  // 0000:c3:00.0 and 0000:c6:00.0
  return 0;
}

int amdsmi_get_gpu_device_uuid(void* gpu, unsigned* length, char* uuid) {
  if (gpu != &gpu_a || *length < 38) return 2;
  std::strcpy(uuid, "a4ff740f-0000-1000-80aa-42e6e4cc30ff");
  *length = 37;
  return 0;
}

int amdsmi_get_gpu_asic_info(void* gpu, void* info) {
  if (gpu != &gpu_a) return 2;
  std::memset(info, 0xff, 1024);  // as large as a real one, and no zeros to lean on
  std::strcpy(static_cast<char*>(info), "AMD Instinct MI300X");
  return 0;
}

int amdsmi_get_gpu_driver_info(void* gpu, void* info) {
  if (gpu != &gpu_a) return 2;
  std::strcpy(static_cast<char*>(info), "6.12.12");
  return 0;
}

int amdsmi_get_gpu_memory_total(void* gpu, int type, std::uint64_t* bytes) {
  if (gpu != &gpu_a || type != 0) return 2;
  *bytes = 206141652992;
  return 0;
}

}  // extern "C"

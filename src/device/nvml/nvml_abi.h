// The part of NVML's C interface that we use, written from its documented
// layout: the library is opened at run time, so no NVIDIA header is needed to
// build. Names are ours; values, sizes and field order are NVML's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::device::nvml {

using Device = struct OpaqueDevice*;
using EventSetHandle = struct OpaqueEventSet*;

enum class Return : std::uint32_t {
  success = 0,
  uninitialized = 1,
  invalid_argument = 2,
  not_supported = 3,
  no_permission = 4,
  already_initialized = 5,
  not_found = 6,
  insufficient_size = 7,
  insufficient_power = 8,
  driver_not_loaded = 9,
  timeout = 10,
  irq_issue = 11,
  library_not_found = 12,
  function_not_found = 13,
  corrupted_inforom = 14,
  gpu_is_lost = 15,
  reset_required = 16,
  operating_system = 17,
  lib_rm_version_mismatch = 18,
  in_use = 19,
  memory = 20,
  no_data = 21,
  vgpu_ecc_not_supported = 22,
  insufficient_resources = 23,
  freq_not_supported = 24,
  argument_version_mismatch = 25,
  deprecated = 26,
  not_ready = 27,
  gpu_not_found = 28,
  invalid_state = 29,
  reset_type_not_supported = 30,
  unknown = 999,
};

enum class Clock : std::uint32_t { graphics = 0, sm = 1, memory = 2, video = 3 };
enum class EccError : std::uint32_t { corrected = 0, uncorrected = 1 };
enum class EccCounter : std::uint32_t { volatile_count = 0, aggregate = 1 };
enum class NvLinkError : std::uint32_t { replay = 0, recovery = 1, crc_flit = 2, crc_data = 3 };
enum class Threshold : std::uint32_t { shutdown = 0, slowdown = 1, memory_max = 2, gpu_max = 3 };
enum class RetirementCause : std::uint32_t { multiple_single_bit = 0, double_bit = 1 };
enum class ValueType : std::uint32_t { f64 = 0, u32, ulong, u64, i64, i32, u16 };

inline constexpr std::uint32_t kTemperatureSensorGpu = 0;
inline constexpr std::uint32_t kAffinityScopeNode = 0;
inline constexpr unsigned kMaxNvLinks = 36;
inline constexpr std::uint64_t kNotAvailable = ~std::uint64_t{0};  // NVML's "no value"

namespace event {
inline constexpr std::uint64_t kSingleBitEcc = 0x1;
inline constexpr std::uint64_t kDoubleBitEcc = 0x2;
inline constexpr std::uint64_t kXid = 0x8;
inline constexpr std::uint64_t kGpuUnavailable = 0x4000;
inline constexpr std::uint64_t kRecoveryAction = 0x8000;
}  // namespace event

namespace throttle {
inline constexpr std::uint64_t kIdle = 0x1;
inline constexpr std::uint64_t kApplicationClocks = 0x2;
inline constexpr std::uint64_t kPowerCap = 0x4;
inline constexpr std::uint64_t kHwSlowdown = 0x8;
inline constexpr std::uint64_t kSyncBoost = 0x10;
inline constexpr std::uint64_t kSwThermal = 0x20;
inline constexpr std::uint64_t kHwThermal = 0x40;
inline constexpr std::uint64_t kPowerBrake = 0x80;
inline constexpr std::uint64_t kDisplay = 0x100;
}  // namespace throttle

// Field ids for nvmlDeviceGetFieldValues whose number has been stable.
namespace field {
inline constexpr std::uint32_t kNvLinkCrcFlitTotal = 38;
inline constexpr std::uint32_t kNvLinkCrcDataTotal = 45;
inline constexpr std::uint32_t kNvLinkReplayTotal = 52;
inline constexpr std::uint32_t kNvLinkRecoveryTotal = 59;
inline constexpr std::uint32_t kMemoryTemperature = 82;
inline constexpr std::uint32_t kPcieReplay = 94;
inline constexpr std::uint32_t kNvLinkDataTx = 138;  // KiB; scope is a link or kAllLinks
inline constexpr std::uint32_t kNvLinkDataRx = 139;
inline constexpr std::uint32_t kPowerAverage = 185;  // mW over 1 s
inline constexpr std::uint32_t kPowerInstant = 186;  // mW
inline constexpr std::uint32_t kRecoveryAction = 230;
inline constexpr std::uint32_t kAllLinks = 0xffffffff;
}  // namespace field

struct Memory {
  std::uint64_t total, free, used;
};
static_assert(sizeof(Memory) == 24);

struct MemoryV2 {
  std::uint32_t version;
  std::uint64_t total, reserved, free, used;
};
static_assert(sizeof(MemoryV2) == 40 && offsetof(MemoryV2, used) == 32);

// Memory limits of the processes of a control group; since r615. `group` is its folder.
struct SetMemoryLimitsV1 {
  const char* group;
  std::uint64_t soft, hard;  // bytes
};
static_assert(sizeof(SetMemoryLimitsV1) == 24);

struct GetMemoryLimitsV1 {
  const char* group;
  std::uint64_t soft, hard, used;
};
static_assert(sizeof(GetMemoryLimitsV1) == 32);

struct Utilization {
  std::uint32_t gpu, memory;  // %
};
static_assert(sizeof(Utilization) == 8);

struct PciInfo {
  char bus_id_legacy[16];
  std::uint32_t domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
static_assert(sizeof(PciInfo) == 68 && offsetof(PciInfo, bus_id) == 36);

struct TemperatureV1 {
  std::uint32_t version, sensor;
  std::int32_t celsius;
};
static_assert(sizeof(TemperatureV1) == 12);

struct MarginTemperatureV1 {
  std::uint32_t version;
  std::int32_t celsius;
};
static_assert(sizeof(MarginTemperatureV1) == 8);

struct ProcessInfo {
  std::uint32_t pid;
  std::uint64_t used_memory;  // kNotAvailable where the driver does not report it
  std::uint32_t gpu_instance, compute_instance;
};
static_assert(sizeof(ProcessInfo) == 24 && offsetof(ProcessInfo, gpu_instance) == 16);

// The layout that drivers 535.43 to 535.86 wrote from the same entry point.
struct ProcessInfo535 {
  ProcessInfo common;
  std::uint64_t protected_memory;
};
static_assert(sizeof(ProcessInfo535) == 32);

struct ProcessSample {
  std::uint32_t pid;
  std::uint64_t timestamp_us;
  std::uint32_t sm, memory, encoder, decoder;  // %
};
static_assert(sizeof(ProcessSample) == 32 && offsetof(ProcessSample, sm) == 16);

struct EventData {
  Device device;
  std::uint64_t type, data;
  std::uint32_t gpu_instance, compute_instance;
};
static_assert(sizeof(EventData) == 32);

struct FieldValue {
  std::uint32_t field, scope;
  std::int64_t timestamp_us, latency_us;
  ValueType type;
  Return code;
  union {
    double f64;
    std::uint32_t u32;
    unsigned long ulong;
    std::uint64_t u64;
    std::int64_t i64;
    std::int32_t i32;
    std::uint16_t u16;
  } value;
};
static_assert(sizeof(FieldValue) == 40 && offsetof(FieldValue, value) == 32);

// NVML's version word of a struct: size in the low bits, number on top.
template <class T>
constexpr std::uint32_t version_word(std::uint32_t number) {
  return static_cast<std::uint32_t>(sizeof(T)) | number << 24;
}
static_assert(version_word<MemoryV2>(2) == 0x02000028);
static_assert(version_word<TemperatureV1>(1) == 0x0100000c);

}  // namespace sluice::device::nvml

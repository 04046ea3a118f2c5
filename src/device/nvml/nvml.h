// NVIDIA's management library, opened at run time.
//
// One short method per query. A query that failed keeps NVML's
// code, so that the caller can tell "this card has no fan" (not_supported) from
// "this card is gone" (gpu_is_lost). Nothing here throws except open().
//
// Any method may block for as long as the driver does, and a handle of a GPU
// that was reset may crash the library: ask from a process that may be lost.
// Methods are thread-safe, as NVML is.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "device/nvml/nvml_abi.h"

namespace sluice::device {

namespace nvml {
struct Functions;

// "the GPU is lost", "not supported", …; "unknown error" for a code we do not know.
const char* describe(Return code) noexcept;
}  // namespace nvml

template <class T>
struct Answer {
  nvml::Return code = nvml::Return::unknown;
  T value{};

  explicit operator bool() const noexcept { return code == nvml::Return::success; }
  std::optional<T> optional() const { return *this ? std::optional<T>(value) : std::nullopt; }
};

// Sees every call of the thread that made a CallScope: what is asked now, so that
// a watchdog can name the call that hangs, and what each cost. before() and
// after() run on the calling thread and may run inside any method of Nvml.
struct CallObserver {
  virtual ~CallObserver() = default;
  virtual void before(const char* function) noexcept = 0;
  virtual void after(const char* function, nvml::Return code, Steady::duration took) noexcept = 0;
};

// Observes this thread's NVML calls until the end of the scope.
class CallScope {
 public:
  explicit CallScope(CallObserver& observer) noexcept;
  ~CallScope();
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

 private:
  CallObserver* previous_;
};

struct DeviceMemory {
  std::uint64_t total = 0, free = 0, used = 0;
  std::optional<std::uint64_t> reserved;  // absent from old drivers, which count it as used
};

// Memory limits of a control group: the driver refuses allocations past `hard`.
struct MemoryLimits {
  std::uint64_t soft = 0, hard = 0, used = 0;
};

struct PowerRange {
  double min_w = 0, max_w = 0;
};

struct EnabledPending {
  bool current = false, pending = false;
};

struct RemappedRows {
  unsigned corrected = 0, uncorrected = 0;
  bool pending = false, failed = false;
};

enum class ProcessKind { compute, graphics, mps };

struct RunningProcess {
  std::int64_t pid;
  ProcessKind kind;
  std::optional<std::uint64_t> memory;  // bytes
};

struct FieldQuery {
  std::uint32_t field;
  std::uint32_t scope = 0;
};

// Owns an NVML event set. Must not outlive the Nvml it came from. Each set is
// for one thread.
class EventSet {
 public:
  EventSet() = default;
  EventSet(const nvml::Functions* functions, nvml::EventSetHandle handle) noexcept
      : functions_(functions), handle_(handle) {}
  ~EventSet();
  EventSet(EventSet&& other) noexcept
      : functions_(other.functions_), handle_(std::exchange(other.handle_, nullptr)) {}
  EventSet& operator=(EventSet&& other) noexcept {
    std::swap(functions_, other.functions_);
    std::swap(handle_, other.handle_);
    return *this;
  }

  // Registers what `mask` and the device have in common and answers with that;
  // not_supported when it is nothing. Earlier events are lost.
  Answer<std::uint64_t> add(nvml::Device device, std::uint64_t mask);

  // Waits for one event; Return::timeout when none came.
  Answer<nvml::EventData> wait(std::uint32_t timeout_ms);

 private:
  const nvml::Functions* functions_ = nullptr;
  nvml::EventSetHandle handle_ = nullptr;
};

class Nvml {
 public:
  // Opens `path`, or libnvidia-ml.so.1, or libnvidia-ml.so, and initialises it.
  // Throws unavailable with the reason and what to do about it.
  static std::unique_ptr<Nvml> open(const std::string& path = {});

  // Returns whether the library is there at all, be it broken.
  static bool is_installed();

  // The same for a library that is open already; closes it in the end.
  static std::unique_ptr<Nvml> adopt(void* library);

  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // A symbol of the library beyond NVML's own, or null: the fake library exports
  // some for tests and demos.
  void* symbol(const char* name) const noexcept;

  // ---- The driver and its devices (nvml_devices.cc)

  Answer<std::string> driver_version() const;
  Answer<std::string> nvml_version() const;
  Answer<std::pair<int, int>> cuda_version() const;          // highest the driver supports
  Answer<std::string> process_name(std::int64_t pid) const;  // its program, where /proc is mute

  // Finds devices. An index is good for one enumeration only; keep the UUID.
  Answer<unsigned> count() const;
  Answer<nvml::Device> by_index(unsigned index) const;
  Answer<nvml::Device> by_uuid(const std::string& uuid) const;
  Answer<nvml::Device> by_bus(const std::string& bus) const;

  // Static properties of a device.
  Answer<std::string> uuid(nvml::Device device) const;
  Answer<std::string> bus(nvml::Device device) const;  // "0000:04:00.0", lower case
  Answer<std::string> name(nvml::Device device) const;
  Answer<unsigned> minor_number(nvml::Device device) const;  // of /dev/nvidia<N>
  Answer<std::pair<int, int>> compute_capability(nvml::Device device) const;
  Answer<unsigned> sm_count(nvml::Device device) const;
  Answer<int> numa_node(nvml::Device device) const;  // the nearest memory; sysfs if NVML is mute

  // NVLink. Links are numbered from 0; the first that answers invalid_argument or
  // not_supported ends the list.
  Answer<bool> nvlink_active(nvml::Device device, unsigned link) const;
  Answer<unsigned> nvlink_version(nvml::Device device, unsigned link) const;  // 1 to 6
  Answer<std::string> nvlink_peer_bus(nvml::Device device, unsigned link) const;

  // ---- Readings (nvml_readings.cc)

  Answer<DeviceMemory> memory(nvml::Device device) const;
  Answer<nvml::Utilization> utilization(nvml::Device device) const;
  Answer<unsigned> clock_mhz(nvml::Device device, nvml::Clock clock) const;
  Answer<unsigned> max_clock_mhz(nvml::Device device, nvml::Clock clock) const;
  Answer<std::uint64_t> throttle_reasons(nvml::Device device) const;  // bits of nvml::throttle
  Answer<double> temperature(nvml::Device device) const;              // C
  Answer<double> temperature_margin(nvml::Device device) const;       // C left until slowdown
  Answer<double> memory_temperature(nvml::Device device) const;       // C
  Answer<double> fan(nvml::Device device) const;                      // %
  Answer<double> power_w(nvml::Device device) const;
  Answer<double> energy_j(nvml::Device device) const;  // since the driver was loaded
  Answer<std::uint64_t> pcie_replays(nvml::Device device) const;
  Answer<int> recovery_action(nvml::Device device) const;  // 0 none, 1 reset, 2 reboot, …

  // Errors so far.
  Answer<std::uint64_t> ecc_errors(nvml::Device device, nvml::EccError error,
                                   nvml::EccCounter counter) const;
  Answer<RemappedRows> remapped_rows(nvml::Device device) const;  // Ampere and newer
  Answer<unsigned> retired_pages(nvml::Device device) const;      // older cards

  // NVLink counters.
  Answer<std::uint64_t> nvlink_errors(nvml::Device device) const;    // all links, all kinds
  Answer<std::uint64_t> nvlink_tx_bytes(nvml::Device device) const;  // all links
  Answer<std::uint64_t> nvlink_rx_bytes(nvml::Device device) const;

  // One driver call for many fields; each value has its own code.
  std::vector<Answer<double>> fields(nvml::Device device, std::span<const FieldQuery> wanted) const;

  // ---- Processes and events (nvml_processes.cc)

  // Compute, graphics and MPS processes. Slow (milliseconds, under the driver's
  // lock): ask rarely. success when any list could be read.
  Answer<std::vector<RunningProcess>> processes(nvml::Device device) const;

  // Samples newer than `since_us`, 0 for all the driver kept. Nothing new is
  // success with none. Percentages above 100 are garbage and are left out.
  Answer<std::vector<nvml::ProcessSample>> process_utilization(nvml::Device device,
                                                               std::uint64_t since_us) const;

  Answer<EventSet> event_set() const;

  // ---- Settings (nvml_settings.cc)

  // Limits and modes.
  Answer<double> power_limit_w(nvml::Device device) const;
  Answer<double> enforced_power_limit_w(nvml::Device device) const;
  Answer<double> default_power_limit_w(nvml::Device device) const;
  Answer<PowerRange> power_range(nvml::Device device) const;
  Answer<bool> persistence(nvml::Device device) const;
  Answer<EnabledPending> ecc_mode(nvml::Device device) const;
  Answer<EnabledPending> mig_mode(nvml::Device device) const;
  Answer<unsigned> mig_instances(nvml::Device device) const;

  // Limits of a control group, by its folder; drivers of r615 and later. Setting takes root.
  Answer<MemoryLimits> memory_limits(nvml::Device device, const std::string& group) const;
  nvml::Return set_memory_limits(nvml::Device device, const std::string& group, std::uint64_t soft,
                                 std::uint64_t hard) const;

  // Changes; these need root. Watts and MHz.
  nvml::Return set_persistence(nvml::Device device, bool on) const;
  nvml::Return set_power_limit_w(nvml::Device device, double watts) const;
  nvml::Return lock_sm_clock(nvml::Device device, unsigned min_mhz, unsigned max_mhz) const;
  nvml::Return unlock_sm_clock(nvml::Device device) const;
  nvml::Return lock_memory_clock(nvml::Device device, unsigned min_mhz, unsigned max_mhz) const;
  nvml::Return unlock_memory_clock(nvml::Device device) const;

  // Application clocks, the older way: they can be read back, and end with CUDA 14.
  Answer<unsigned> application_clock_mhz(nvml::Device device, nvml::Clock clock) const;
  Answer<unsigned> default_application_clock_mhz(nvml::Device device, nvml::Clock clock) const;
  nvml::Return set_application_clocks(nvml::Device device, unsigned memory_mhz,
                                      unsigned sm_mhz) const;
  nvml::Return reset_application_clocks(nvml::Device device) const;

  // Supported clocks, highest first.
  Answer<std::vector<unsigned>> supported_memory_clocks(nvml::Device device) const;
  Answer<std::vector<unsigned>> supported_sm_clocks(nvml::Device device, unsigned memory_mhz) const;

 private:
  explicit Nvml(void* library);

  void* library_;
  std::unique_ptr<const nvml::Functions> nvml_;
};

namespace nvml {

// "00000000:04:00.0" and "0000:04:00.0" are one bus: lower case, 4-digit domain.
std::string normalize_bus(std::string bus);

// Entries of a process list as written by a driver whose layout is not known:
// 24-byte entries, or 32-byte ones where those read as nonsense. Entries that make
// no sense either way are left out. `bytes` holds at least count * 32 bytes.
std::vector<ProcessInfo> parse_processes(std::span<const std::byte> bytes, std::size_t count);

// CUDA cores of one SM; 0 for a capability we do not know.
unsigned cores_per_sm(int compute_major, int compute_minor) noexcept;

}  // namespace nvml

}  // namespace sluice::device

// NVML's entry points, looked up by name in an open library. Internal to nvml*.cc.
//
// A symbol that a driver does not have answers function_not_found, so that an old
// driver is called like a new one and the caller handles one kind of "no".
#pragma once

#include <dlfcn.h>

#include "device/nvml/nvml.h"

namespace sluice::device::nvml {

CallObserver* observer() noexcept;  // of this thread, or null

template <class... Args>
class Function {
 public:
  Function(void* library, const char* name) noexcept
      : name_(name), pointer_(reinterpret_cast<Pointer>(dlsym(library, name))) {}

  Return operator()(Args... args) const noexcept {
    if (pointer_ == nullptr) return Return::function_not_found;
    CallObserver* const seen_by = observer();
    if (seen_by == nullptr) return pointer_(args...);
    seen_by->before(name_);
    const Instant start = Steady::now();
    const Return code = pointer_(args...);
    seen_by->after(name_, code, Steady::now() - start);
    return code;
  }

 private:
  using Pointer = Return (*)(Args...);
  const char* name_;
  Pointer pointer_;
};

using u32 = std::uint32_t;
using u64 = std::uint64_t;

struct Functions {
  explicit Functions(void* open_library) noexcept : library(open_library) {}

  void* library;
  Function<> init{library, "nvmlInit_v2"};
  Function<> shutdown{library, "nvmlShutdown"};
  Function<char*, u32> driver_version{library, "nvmlSystemGetDriverVersion"};
  Function<char*, u32> nvml_version{library, "nvmlSystemGetNVMLVersion"};
  Function<int*> cuda_version{library, "nvmlSystemGetCudaDriverVersion_v2"};
  Function<u32, char*, u32> process_name{library, "nvmlSystemGetProcessName"};
  Function<u32*> count{library, "nvmlDeviceGetCount_v2"};
  Function<u32, Device*> by_index{library, "nvmlDeviceGetHandleByIndex_v2"};
  Function<const char*, Device*> by_uuid{library, "nvmlDeviceGetHandleByUUID"};
  Function<const char*, Device*> by_bus{library, "nvmlDeviceGetHandleByPciBusId_v2"};

  Function<Device, char*, u32> uuid{library, "nvmlDeviceGetUUID"};
  Function<Device, char*, u32> name{library, "nvmlDeviceGetName"};
  Function<Device, PciInfo*> pci{library, "nvmlDeviceGetPciInfo_v3"};
  Function<Device, u32*> minor_number{library, "nvmlDeviceGetMinorNumber"};
  Function<Device, int*, int*> capability{library, "nvmlDeviceGetCudaComputeCapability"};
  Function<Device, u32*> cores{library, "nvmlDeviceGetNumGpuCores"};
  Function<Device, u32, unsigned long*, u32> affinity{library, "nvmlDeviceGetMemoryAffinity"};

  Function<Device, MemoryV2*> memory_v2{library, "nvmlDeviceGetMemoryInfo_v2"};
  Function<Device, Memory*> memory{library, "nvmlDeviceGetMemoryInfo"};
  Function<Device, Utilization*> utilization{library, "nvmlDeviceGetUtilizationRates"};
  Function<Device, Clock, u32*> clock{library, "nvmlDeviceGetClockInfo"};
  Function<Device, Clock, u32*> max_clock{library, "nvmlDeviceGetMaxClockInfo"};
  Function<Device, u64*> event_reasons{library, "nvmlDeviceGetCurrentClocksEventReasons"};
  Function<Device, u64*> throttle_reasons{library, "nvmlDeviceGetCurrentClocksThrottleReasons"};
  Function<Device, TemperatureV1*> temperature_v{library, "nvmlDeviceGetTemperatureV"};
  Function<Device, u32, u32*> temperature{library, "nvmlDeviceGetTemperature"};
  Function<Device, Threshold, u32*> threshold{library, "nvmlDeviceGetTemperatureThreshold"};
  Function<Device, MarginTemperatureV1*> margin{library, "nvmlDeviceGetMarginTemperature"};
  Function<Device, u32*> fan{library, "nvmlDeviceGetFanSpeed"};
  Function<Device, u32*> power{library, "nvmlDeviceGetPowerUsage"};
  Function<Device, u64*> energy{library, "nvmlDeviceGetTotalEnergyConsumption"};
  Function<Device, u32*> pcie_replays{library, "nvmlDeviceGetPcieReplayCounter"};
  Function<Device, std::int32_t, FieldValue*> fields{library, "nvmlDeviceGetFieldValues"};

  Function<Device, u32*> power_limit{library, "nvmlDeviceGetPowerManagementLimit"};
  Function<Device, u32*> enforced_limit{library, "nvmlDeviceGetEnforcedPowerLimit"};
  Function<Device, u32*> default_limit{library, "nvmlDeviceGetPowerManagementDefaultLimit"};
  Function<Device, u32*, u32*> power_range{library, "nvmlDeviceGetPowerManagementLimitConstraints"};
  Function<Device, u32*> persistence{library, "nvmlDeviceGetPersistenceMode"};
  Function<Device, u32*, u32*> ecc_mode{library, "nvmlDeviceGetEccMode"};
  Function<Device, u32*, u32*> mig_mode{library, "nvmlDeviceGetMigMode"};
  Function<Device, u32*> max_mig{library, "nvmlDeviceGetMaxMigDeviceCount"};
  Function<Device, u32, Device*> mig_device{library, "nvmlDeviceGetMigDeviceHandleByIndex"};

  Function<Device, EccError, EccCounter, u64*> ecc_errors{library, "nvmlDeviceGetTotalEccErrors"};
  Function<Device, u32*, u32*, u32*, u32*> remapped{library, "nvmlDeviceGetRemappedRows"};
  Function<Device, RetirementCause, u32*, u64*> retired{library, "nvmlDeviceGetRetiredPages"};

  Function<Device, u32, u32*> link_state{library, "nvmlDeviceGetNvLinkState"};
  Function<Device, u32, u32*> link_version{library, "nvmlDeviceGetNvLinkVersion"};
  Function<Device, u32, PciInfo*> link_peer{library, "nvmlDeviceGetNvLinkRemotePciInfo_v2"};
  Function<Device, u32, NvLinkError, u64*> link_errors{library, "nvmlDeviceGetNvLinkErrorCounter"};

  using List = Function<Device, u32*, void*>;
  List compute{library, "nvmlDeviceGetComputeRunningProcesses_v3"};
  List compute_v2{library, "nvmlDeviceGetComputeRunningProcesses_v2"};
  List graphics{library, "nvmlDeviceGetGraphicsRunningProcesses_v3"};
  List graphics_v2{library, "nvmlDeviceGetGraphicsRunningProcesses_v2"};
  List mps{library, "nvmlDeviceGetMPSComputeRunningProcesses_v3"};
  List mps_v2{library, "nvmlDeviceGetMPSComputeRunningProcesses_v2"};
  Function<Device, ProcessSample*, u32*, u64> process_utilization{
      library, "nvmlDeviceGetProcessUtilization"};

  Function<EventSetHandle*> create_set{library, "nvmlEventSetCreate"};
  Function<Device, u64*> supported_events{library, "nvmlDeviceGetSupportedEventTypes"};
  Function<Device, u64, EventSetHandle> register_events{library, "nvmlDeviceRegisterEvents"};
  Function<EventSetHandle, EventData*, u32> wait_v2{library, "nvmlEventSetWait_v2"};
  Function<EventSetHandle, EventData*, u32> wait{library, "nvmlEventSetWait"};
  Function<EventSetHandle> free_set{library, "nvmlEventSetFree"};

  Function<Device, GetMemoryLimitsV1*> memory_limits{library, "nvmlDeviceGetMemoryLimits_v1"};
  Function<Device, SetMemoryLimitsV1*> set_memory_limits{library, "nvmlDeviceSetMemoryLimits_v1"};
  Function<Device, u32> set_persistence{library, "nvmlDeviceSetPersistenceMode"};
  Function<Device, u32> set_power_limit{library, "nvmlDeviceSetPowerManagementLimit"};
  Function<Device, u32, u32> lock_sm{library, "nvmlDeviceSetGpuLockedClocks"};
  Function<Device> unlock_sm{library, "nvmlDeviceResetGpuLockedClocks"};
  Function<Device, u32, u32> lock_memory{library, "nvmlDeviceSetMemoryLockedClocks"};
  Function<Device> unlock_memory{library, "nvmlDeviceResetMemoryLockedClocks"};
  Function<Device, Clock, u32*> app_clock{library, "nvmlDeviceGetApplicationsClock"};
  Function<Device, Clock, u32*> app_default{library, "nvmlDeviceGetDefaultApplicationsClock"};
  Function<Device, u32, u32> set_app_clocks{library, "nvmlDeviceSetApplicationsClocks"};
  Function<Device> reset_app_clocks{library, "nvmlDeviceResetApplicationsClocks"};
  Function<Device, u32*, u32*> memory_clocks{library, "nvmlDeviceGetSupportedMemoryClocks"};
  Function<Device, u32, u32*, u32*> sm_clocks{library, "nvmlDeviceGetSupportedGraphicsClocks"};
};

}  // namespace sluice::device::nvml

#!/usr/bin/env python3
"""NVIDIA's own Python client against our fake libnvidia-ml.so.1: if it reads names,
memory, processes and events, our idea of NVML's interface is right.

Usage: fake_nvml_client_test.py LIBRARY_FOLDER SCENARIO_FOLDER
Exit 77 with a reason where the client is not installed."""
import ctypes, json, os, subprocess, sys, tempfile, time, unittest

try:
    import pynvml as nvml
except ImportError:
    print("SKIPPED: the Python package nvidia-ml-py is missing; ./test installs it, "
          "or: pip install nvidia-ml-py")
    sys.exit(77)

GIB = 1 << 30


class Client(unittest.TestCase):
    """Each test runs in a process of its own (see main), ten seconds into the scenario
    that its docstring names, with the driver that it names behind that."""

    def setUp(self):
        nvml.nvmlInit()
        self.gpu = nvml.nvmlDeviceGetHandleByIndex(0)

    def tearDown(self):
        nvml.nvmlShutdown()

    def test_identity(self):
        """eight-gpus"""
        self.assertEqual(nvml.nvmlDeviceGetCount(), 8)
        self.assertEqual(nvml.nvmlSystemGetDriverVersion(), "580.95.05")
        self.assertEqual(nvml.nvmlSystemGetCudaDriverVersion_v2(), 13000)
        self.assertEqual(nvml.nvmlDeviceGetName(self.gpu), "NVIDIA H200")
        uuid = nvml.nvmlDeviceGetUUID(self.gpu)
        pci = nvml.nvmlDeviceGetPciInfo(self.gpu)
        self.assertEqual(pci.busId, "00000000:04:00.0")
        self.assertEqual(pci.bus, 4)
        for same in (nvml.nvmlDeviceGetHandleByUUID(uuid),
                     nvml.nvmlDeviceGetHandleByPciBusId(pci.busId.encode())):
            self.assertEqual(ctypes.cast(same, ctypes.c_void_p).value,
                             ctypes.cast(self.gpu, ctypes.c_void_p).value)
        self.assertEqual(tuple(nvml.nvmlDeviceGetCudaComputeCapability(self.gpu)), (9, 0))
        self.assertEqual(nvml.nvmlDeviceGetNumGpuCores(self.gpu), 132 * 128)

    def test_readings(self):
        """eight-gpus"""
        memory = nvml.nvmlDeviceGetMemoryInfo(self.gpu, version=nvml.nvmlMemory_v2)
        self.assertEqual(memory.used + memory.free + memory.reserved, memory.total)
        self.assertAlmostEqual(memory.used / GIB, 118, delta=0.1)
        old = nvml.nvmlDeviceGetMemoryInfo(self.gpu)
        self.assertEqual(old.used, memory.used + memory.reserved)
        rates = nvml.nvmlDeviceGetUtilizationRates(self.gpu)
        self.assertTrue(94 <= rates.gpu <= 100, rates.gpu)
        celsius = nvml.nvmlDeviceGetTemperatureV(self.gpu, nvml.NVML_TEMPERATURE_GPU)
        self.assertTrue(60 < celsius < 85, celsius)
        self.assertAlmostEqual(nvml.nvmlDeviceGetMarginTemperature(self.gpu), 90 - celsius, delta=1)
        self.assertTrue(500_000 < nvml.nvmlDeviceGetPowerUsage(self.gpu) <= 700_000)
        self.assertGreater(nvml.nvmlDeviceGetTotalEnergyConsumption(self.gpu), 0)
        self.assertEqual(nvml.nvmlDeviceGetMaxClockInfo(self.gpu, nvml.NVML_CLOCK_SM), 1980)
        self.assertEqual(nvml.nvmlDeviceGetPowerManagementLimitConstraints(self.gpu),
                         [280_000, 700_000])
        self.assertEqual(nvml.nvmlDeviceGetEccMode(self.gpu), [1, 1])
        self.assertEqual(nvml.nvmlDeviceGetNvLinkState(self.gpu, 0), 1)
        self.assertEqual(nvml.nvmlDeviceGetNvLinkVersion(self.gpu, 0), nvml.NVML_NVLINK_VERSION_4_0)
        with self.assertRaises(nvml.NVMLError_NotSupported):
            nvml.nvmlDeviceGetFanSpeed(self.gpu)

    def test_fields(self):
        """eight-gpus"""
        power, everything, unknown, action = nvml.nvmlDeviceGetFieldValues(
            self.gpu, [nvml.NVML_FI_DEV_POWER_INSTANT,
                       (nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, 0xffffffff), 9999,
                       nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
        self.assertTrue(500_000 < power.value.ullVal <= 700_000)
        self.assertGreater(everything.value.ullVal, 0)
        self.assertEqual(unknown.nvmlReturn, nvml.NVML_ERROR_NOT_SUPPORTED)
        self.assertEqual((action.nvmlReturn, action.value.ullVal), (0, 0))

    def test_processes(self):
        """mixed-cards"""
        gpu = nvml.nvmlDeviceGetHandleByIndex(1)
        compute = nvml.nvmlDeviceGetComputeRunningProcesses(gpu)
        graphics = nvml.nvmlDeviceGetGraphicsRunningProcesses(gpu)
        self.assertEqual([p.pid for p in compute], [5202])
        self.assertAlmostEqual(compute[0].usedGpuMemory / GIB, 5.1, delta=0.01)
        self.assertEqual([p.pid for p in graphics], [1210])
        self.assertEqual(nvml.nvmlSystemGetProcessName(5202), "/usr/bin/analyst")
        self.assertEqual([s.pid for s in nvml.nvmlDeviceGetProcessUtilization(gpu, 0)], [5202])

    def test_xid_event(self):
        """xid-storm"""
        gpu = nvml.nvmlDeviceGetHandleByIndex(1)
        events = nvml.nvmlEventSetCreate()
        supported = nvml.nvmlDeviceGetSupportedEventTypes(gpu)
        nvml.nvmlDeviceRegisterEvents(gpu, supported & nvml.nvmlEventTypeXidCriticalError, events)
        event = nvml.nvmlEventSetWait_v2(events, 2000)
        self.assertEqual(event.eventType, nvml.nvmlEventTypeXidCriticalError)
        self.assertEqual(event.eventData, 31)
        nvml.nvmlEventSetFree(events)

    def test_ecc_and_rows(self):
        """ecc-errors"""
        corrected = nvml.nvmlDeviceGetTotalEccErrors(
            self.gpu, nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, nvml.NVML_VOLATILE_ECC)
        self.assertEqual(corrected, 15)
        self.assertEqual(nvml.nvmlDeviceGetRemappedRows(self.gpu), (0, 1, 1, 0))
        pages = nvml.nvmlDeviceGetRetiredPages(nvml.nvmlDeviceGetHandleByIndex(1),
                                               nvml.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR)
        self.assertEqual(len(pages), 1)

    def test_lost(self):
        """gpu-falls-off"""
        self.assertEqual(nvml.nvmlDeviceGetCount(), 1)  # hidden from 9 s to 15 s
        with self.assertRaises(nvml.NVMLError_NotFound):
            nvml.nvmlDeviceGetHandleByPciBusId(b"0000:14:00.0")

    def test_memory_limits_of_control_groups(self):
        """eight-gpus 615.71.09"""
        group = b"/sys/fs/cgroup/sluice/lease-1"
        nvml.nvmlDeviceSetMemoryLimits_v1(
            self.gpu, nvml.c_nvmlSetMemoryLimits_v1_t(group, 0, 8 * GIB))
        stands = nvml.c_nvmlGetMemoryLimits_v1_t(nameSpace=group)
        nvml.nvmlDeviceGetMemoryLimits_v1(self.gpu, stands)
        self.assertEqual((stands.softLimit, stands.hardLimit), (0, 8 * GIB))
        other = nvml.c_nvmlGetMemoryLimits_v1_t(nameSpace=b"/sys/fs/cgroup/other")
        with self.assertRaises(nvml.NVMLError_NotFound):
            nvml.nvmlDeviceGetMemoryLimits_v1(self.gpu, other)

    def test_an_older_driver_has_no_memory_limits(self):
        """eight-gpus"""
        with self.assertRaises(nvml.NVMLError_FunctionNotFound):
            nvml.nvmlDeviceSetMemoryLimits_v1(
                self.gpu, nvml.c_nvmlSetMemoryLimits_v1_t(b"/sys/fs/cgroup/x", 0, GIB))

    def test_settings_survive_the_process(self):
        """throttling"""
        nvml.nvmlDeviceSetPowerManagementLimit(self.gpu, 400_000)
        nvml.nvmlDeviceSetPersistenceMode(self.gpu, 0)
        child = subprocess.run(
            [sys.executable, "-c", "import pynvml as n; n.nvmlInit();"
             "d = n.nvmlDeviceGetHandleByIndex(0);"
             "print(n.nvmlDeviceGetPowerManagementLimit(d), n.nvmlDeviceGetPersistenceMode(d))"],
            capture_output=True, text=True, check=True)
        self.assertEqual(child.stdout.split(), ["400000", "0"])
        with self.assertRaises(nvml.NVMLError_InvalidArgument):
            nvml.nvmlDeviceSetPowerManagementLimit(self.gpu, 9_000_000)


class Mismatch(unittest.TestCase):
    def test_init(self):
        """driver-mismatch"""
        with self.assertRaises(nvml.NVMLError_LibRmVersionMismatch):
            nvml.nvmlInit()


def with_driver(path, driver, folder):
    """The scenario, or a copy of it with another driver."""
    if not driver:
        return path
    with open(path) as f:
        scenario = json.load(f)
    with open(os.path.join(folder, "scenario.json"), "w") as f:
        json.dump({**scenario, "driver": driver[0]}, f)
    return f.name


def main(library, scenarios):
    failed = 0
    for suite in (Client, Mismatch):
        for name in unittest.TestLoader().getTestCaseNames(suite):
            test = f"{suite.__name__}.{name}"
            scenario, *driver = getattr(suite, name).__doc__.split()
            with tempfile.TemporaryDirectory() as folder:
                path = with_driver(os.path.join(scenarios, scenario + ".json"), driver, folder)
                environment = os.environ | {
                    "LD_LIBRARY_PATH": library,
                    "SLUICE_FAKE_NVML": path,
                    "SLUICE_FAKE_NVML_EPOCH_NS": str(time.monotonic_ns() - 10_500_000_000),
                    "SLUICE_FAKE_NVML_STATE": os.path.join(folder, "state.json")}
                child = subprocess.run([sys.executable, __file__, "--one", test], env=environment,
                                       capture_output=True, text=True)
            print(f"{test} in {scenario}: {'ok' if child.returncode == 0 else 'FAILED'}")
            if child.returncode != 0:
                failed += 1
                print(child.stdout + child.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        unittest.main(argv=[sys.argv[0], sys.argv[2]])
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2]))

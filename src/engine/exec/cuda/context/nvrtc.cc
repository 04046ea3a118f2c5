#include "engine/exec/cuda/context/nvrtc.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nvrtc.h>

#include <array>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "device/cuda/driver_function.h"
#include "device/cuda/stream.h"
#include "device/library.h"

namespace sluice::engine::cuda {
namespace {

constexpr std::array<std::string_view, 2> kNames{"libnvrtc.so.13", "libnvrtc.so.12"};

// Driver functions, looked up through the runtime: the program does not link libcuda.
struct Driver {
  decltype(&cuModuleLoadData) load;
  decltype(&cuModuleUnload) unload;
  decltype(&cuModuleGetFunction) function;
  decltype(&cuLaunchKernel) launch;

  Driver() {
    device::find_in_driver(load, "cuModuleLoadData");
    device::find_in_driver(unload, "cuModuleUnload");
    device::find_in_driver(function, "cuModuleGetFunction");
    device::find_in_driver(launch, "cuLaunchKernel");
  }
};

void check(CUresult result, const char* what, SourceLocation where = SourceLocation::here()) {
  if (result != CUDA_SUCCESS)
    device::check(device::GpuLibrary::cuda, static_cast<int>(result),
                  std::string(what) + ": error " + std::to_string(static_cast<int>(result)) +
                      " of the driver",
                  where);
}

class Loaded final : public CompiledKernel {
 public:
  Loaded(std::shared_ptr<const Driver> driver, const std::string& cubin, const char* name)
      : driver_(std::move(driver)) {
    check(driver_->load(&module_, cubin.data()), "load of a compiled kernel");
    check(driver_->function(&function_, module_, name), name);
  }
  ~Loaded() override {
    if (driver_->unload(module_) != CUDA_SUCCESS) log::debug("a compiled kernel stayed loaded");
  }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  void launch(unsigned blocks, unsigned threads, void** parameters,
              const KernelArgs& args) const override {
    check(driver_->launch(function_, blocks, 1, 1, threads, 1, 1, 0,
                          static_cast<CUstream>(args.stream), parameters, nullptr),
          "launch of a compiled kernel");
  }

 private:
  std::shared_ptr<const Driver> driver_;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
};

class Compiler {
 public:
  explicit Compiler(const Context& context)
      : library(kNames, context.options.library_dirs),
        architecture("--gpu-architecture=sm_" + std::to_string(context.capability())) {}

  std::string compile(const std::string& source) const {
    nvrtcProgram program = nullptr;
    check(create(&program, source.c_str(), "elements.cu", 0, nullptr, nullptr));
    const std::unique_ptr<nvrtcProgram, Destroy> owned(&program, Destroy{destroy});
    const std::array<const char*, 3> options{architecture.c_str(), "--std=c++17",
                                             "--device-as-default-execution-space"};
    const nvrtcResult built = build(program, static_cast<int>(options.size()), options.data());
    if (built != NVRTC_SUCCESS) check(built, log_of(program));
    std::size_t size = 0;
    check(cubin_size(program, &size));
    std::string cubin(size, '\0');
    check(get_cubin(program, cubin.data()));
    return cubin;
  }

 private:
  struct Destroy {
    decltype(&nvrtcDestroyProgram) destroy;
    void operator()(nvrtcProgram* program) const { destroy(program); }
  };
  void check(nvrtcResult result, const std::string& log = {},
             SourceLocation where = SourceLocation::here()) const {
    if (result != NVRTC_SUCCESS)
      device::check(device::GpuLibrary::nvrtc, static_cast<int>(result),
                    std::string("NVRTC: ") + error_string(result) + log, where);
  }
  // The compiler's log; empty if there is none.
  std::string log_of(nvrtcProgram program) const {
    std::size_t size = 0;
    if (log_size(program, &size) != NVRTC_SUCCESS || size <= 1) return {};
    std::string text(size, '\0');
    return get_log(program, text.data()) == NVRTC_SUCCESS ? ": " + text : std::string();
  }

  device::Library library;
  std::string architecture;
#define SLUICE_FIND(NAME) library.find<decltype(NAME)>(#NAME)
  decltype(&nvrtcCreateProgram) create = SLUICE_FIND(nvrtcCreateProgram);
  decltype(&nvrtcDestroyProgram) destroy = SLUICE_FIND(nvrtcDestroyProgram);
  decltype(&nvrtcCompileProgram) build = SLUICE_FIND(nvrtcCompileProgram);
  decltype(&nvrtcGetProgramLogSize) log_size = SLUICE_FIND(nvrtcGetProgramLogSize);
  decltype(&nvrtcGetProgramLog) get_log = SLUICE_FIND(nvrtcGetProgramLog);
  decltype(&nvrtcGetCUBINSize) cubin_size = SLUICE_FIND(nvrtcGetCUBINSize);
  decltype(&nvrtcGetCUBIN) get_cubin = SLUICE_FIND(nvrtcGetCUBIN);
  decltype(&nvrtcGetErrorString) error_string = SLUICE_FIND(nvrtcGetErrorString);
#undef SLUICE_FIND
};

}  // namespace

struct NvrtcKernels::Impl {
  // Null if NVRTC is not installed.
  const Compiler* nvrtc() {
    if (opened) return compiler.get();
    opened = true;
    try {
      compiler = std::make_unique<Compiler>(context);
    } catch (const Error& error) {
      log::warn("elementwise kernels are interpreted, which is slower: {}", error.reason());
    }
    return compiler.get();
  }

  std::shared_ptr<const CompiledKernel> load(const std::string& code, const char* name) {
    const device::DeviceScope on({context.options.device});
    if (!driver) driver = std::make_shared<const Driver>();
    return std::make_shared<Loaded>(driver, code, name);
  }

  // The cubin of a plan, if the driver accepts it.
  std::shared_ptr<const CompiledKernel> load_cached(const std::string& key, const char* name) {
    const AlgorithmChoice code = context.choice(key);
    if (code == nullptr) return nullptr;
    try {
      return load(*code, name);
    } catch (const Error& error) {
      if (device::gpu_status_of(error) != device::GpuStatus::refused) throw;
      log::debug("a kernel of a plan is compiled again: {}", error.reason());
      return nullptr;
    }
  }

  // Empty if it does not compile, which is our bug and not a GPU failure.
  std::string compile(const std::string& source) {
    if (failed_sources.contains(source)) return {};
    try {
      return nvrtc()->compile(source);
    } catch (const Error& error) {
      if (device::gpu_status_of(error) != device::GpuStatus::refused) throw;
      log::error("an elementwise kernel is interpreted, which is slower: {}", error.reason());
      failed_sources.insert(source);
      return {};
    }
  }

  Context& context;
  std::set<std::string> failed_sources{};  // do not compile
  std::shared_ptr<const Driver> driver{};
  std::unique_ptr<Compiler> compiler{};
  bool opened = false;
};

NvrtcKernels::NvrtcKernels(Context& context) : impl_(new Impl{context}) {}

NvrtcKernels::~NvrtcKernels() = default;

bool NvrtcKernels::available() { return impl_->nvrtc() != nullptr; }

std::shared_ptr<const CompiledKernel> NvrtcKernels::get(const std::string& source,
                                                        const char* name) {
  constexpr std::size_t kMaxKnown = 512;  // besides those that programs use
  if (known_.size() > kMaxKnown)
    std::erase_if(known_, [](const auto& one) { return one.second.use_count() <= 1; });
  std::shared_ptr<const CompiledKernel>& kept = known_[source];
  const std::string key = "code of " + source;
  if (!kept) kept = impl_->load_cached(key, name);
  if (kept || impl_->nvrtc() == nullptr) return kept;
  const std::string code = impl_->compile(source);
  if (code.empty()) return nullptr;
  kept = impl_->load(code, name);
  impl_->context.choose(key, code, impl_->context.mark());
  return kept;
}

}  // namespace sluice::engine::cuda

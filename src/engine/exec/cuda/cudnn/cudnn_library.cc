#include "engine/exec/cuda/cudnn/cudnn_library.h"

#include <array>
#include <utility>

#include "device/cuda/check.h"
#include "device/library.h"

namespace sluice::engine::cuda::cudnn {

Library::Library(Context& context) : device_(context.options.device) {
  constexpr std::array<std::string_view, 1> kNames{"libcudnn.so.9"};
  try {
    const device::Library library(kNames, context.options.library_dirs);
    const auto find = [&library]<class Function>(Function*& function, const char* name) {
      function = library.find<Function>(name);
    };
    find(create, "cudnnCreate");
    find(destroy, "cudnnDestroy");
    find(set_stream, "cudnnSetStream");
    find(error_string, "cudnnGetErrorString");
    find(create_descriptor, "cudnnBackendCreateDescriptor");
    find(destroy_descriptor, "cudnnBackendDestroyDescriptor");
    find(finalize, "cudnnBackendFinalize");
    find(set_attribute, "cudnnBackendSetAttribute");
    find(get_attribute, "cudnnBackendGetAttribute");
    find(execute, "cudnnBackendExecute");
    version = std::to_string(library.find<decltype(cudnnGetVersion)>("cudnnGetVersion")());
  } catch (const Error& error) {
    why_not = error.reason();
  }
  context.on_stream_destroy([this](CUstream_st* stream) { release_stream(stream); });
}

void Library::start() {
  if (!why_not.empty()) throw Error(Code::unavailable, why_not);
  const Lock lock(running);
  if (!idle_stream_) idle_stream_.emplace(device::DeviceId{device_});
  if (runner == nullptr) check(create(&runner), "a handle to run with");
  if (builder == nullptr) check(create(&builder), "a handle to build with");
}

void Library::run_on(CUstream_st* stream) {
  check(set_stream(runner, stream), "a stream");
  runs_on_ = stream;
}

// When its stream is changed, cuDNN records an event on the previous one, which would crash if that
// stream were destroyed. Errors surface in the next run.
void Library::release_stream(CUstream_st* stream) {
  const Lock lock(running);
  if (runner == nullptr || runs_on_ != stream) return;
  (void)set_stream(runner, idle_stream_->get());
  runs_on_ = idle_stream_->get();
}

Library::~Library() {
  for (const cudnnHandle_t handle : {runner, builder})
    if (handle != nullptr) destroy(handle);
}

void Library::fail(cudnnStatus_t status, const char* what) const {
  device::check(device::GpuLibrary::cudnn, status,
                std::string("cuDNN, ") + what + ": " + error_string(status));
}

BackendDescriptor::BackendDescriptor(const Library& library, cudnnBackendDescriptorType_t kind)
    : library_(&library) {
  library.check(library.create_descriptor(kind, &made_), "a descriptor");
}

BackendDescriptor::~BackendDescriptor() {
  if (made_ != nullptr) library_->destroy_descriptor(made_);
}

BackendDescriptor::BackendDescriptor(BackendDescriptor&& other) noexcept
    : library_(other.library_), made_(std::exchange(other.made_, nullptr)) {}

std::size_t BackendDescriptor::count(cudnnBackendAttributeName_t what,
                                     cudnnBackendAttributeType_t type) const {
  std::int64_t count = 0;
  library_->check(library_->get_attribute(made_, what, type, 0, &count, nullptr), "a list");
  return static_cast<std::size_t>(count);
}

}  // namespace sluice::engine::cuda::cudnn

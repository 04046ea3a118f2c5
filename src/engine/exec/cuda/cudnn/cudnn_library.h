// The cuDNN library, its handles and RAII backend descriptors. Types and constants are those of
// cuDNN's header; the library is opened at run time.
#pragma once

#include <cudnn_graph.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "device/cuda/stream.h"
#include "engine/exec/cuda/context/backend.h"

namespace sluice::engine::cuda::cudnn {

// A part of the Context: the library and its handles, or why it is not available.
class Library {
 public:
  // Only opens the library, which is fast.
  explicit Library(Context& context);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  // Creates the handles, once, which loads most of cuDNN. Throws unavailable if it is not
  // installed.
  void start();

  // Plans are built and measured with `builder`, by the thread that holds Context::making; programs
  // run with `runner`.
  Mutex running;                    // the runner has one stream at a time
  cudnnHandle_t builder = nullptr;  // null: not started
  cudnnHandle_t runner GUARDED_BY(running) = nullptr;
  void run_on(CUstream_st* stream) REQUIRES(running);  // sets the runner's stream
  std::string why_not;                                 // why it is not available; empty: it is
  std::string version;

  // Throws GpuError: refused if cuDNN does not support it, lost if cuDNN reports a GPU fault.
  void check(cudnnStatus_t status, const char* what) const {
    if (status != CUDNN_STATUS_SUCCESS) fail(status, what);
  }

  decltype(&cudnnCreate) create = nullptr;
  decltype(&cudnnDestroy) destroy = nullptr;
  decltype(&cudnnSetStream) set_stream = nullptr;
  decltype(&cudnnGetErrorString) error_string = nullptr;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor = nullptr;
  decltype(&cudnnBackendFinalize) finalize = nullptr;
  decltype(&cudnnBackendSetAttribute) set_attribute = nullptr;
  decltype(&cudnnBackendGetAttribute) get_attribute = nullptr;
  decltype(&cudnnBackendExecute) execute = nullptr;

 private:
  void fail(cudnnStatus_t status, const char* what) const;
  void release_stream(CUstream_st* stream);

  const int device_;
  std::optional<device::Stream> idle_stream_;  // exists once the handles do
  CUstream_st* runs_on_ GUARDED_BY(running) = nullptr;
};

class BackendDescriptor {
 public:
  BackendDescriptor(const Library& library, cudnnBackendDescriptorType_t kind);
  ~BackendDescriptor();
  BackendDescriptor(BackendDescriptor&& other) noexcept;
  BackendDescriptor& operator=(BackendDescriptor&& other) noexcept {
    std::swap(library_, other.library_);
    std::swap(made_, other.made_);
    return *this;
  }

  cudnnBackendDescriptor_t get() const noexcept { return made_; }

  template <class T>
  BackendDescriptor& set(cudnnBackendAttributeName_t what, cudnnBackendAttributeType_t type,
                         const T& value) {
    library_->check(library_->set_attribute(made_, what, type, 1, &value), "an attribute");
    return *this;
  }
  template <class T>
  BackendDescriptor& set_list(cudnnBackendAttributeName_t what, cudnnBackendAttributeType_t type,
                              const T& values) {
    library_->check(
        library_->set_attribute(made_, what, type, static_cast<std::int64_t>(std::size(values)),
                                std::data(values)),
        "an attribute");
    return *this;
  }
  BackendDescriptor& set(cudnnBackendAttributeName_t what, const BackendDescriptor& other) {
    return set(what, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.made_);
  }
  // Returns at most `max_count` values.
  template <class T>
  std::vector<T> list(cudnnBackendAttributeName_t what, cudnnBackendAttributeType_t type,
                      std::size_t max_count) const {
    std::vector<T> values(max_count);
    std::int64_t count = 0;
    library_->check(library_->get_attribute(made_, what, type, static_cast<std::int64_t>(max_count),
                                            &count, values.data()),
                    "an attribute");
    values.resize(std::min(max_count, static_cast<std::size_t>(count)));
    return values;
  }
  std::size_t count(cudnnBackendAttributeName_t what, cudnnBackendAttributeType_t type) const;
  BackendDescriptor& finish(const char* what) {
    library_->check(library_->finalize(made_), what);
    return *this;
  }

 private:
  const Library* library_;
  cudnnBackendDescriptor_t made_ = nullptr;
};

}  // namespace sluice::engine::cuda::cudnn

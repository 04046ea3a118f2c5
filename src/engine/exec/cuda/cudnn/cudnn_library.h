// The cuDNN library, its handles and RAII backend descriptors.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "device/cuda/stream.h"
#include "engine/exec/cuda/context/backend.h"
#include "engine/exec/cuda/cudnn/cudnn_abi.h"

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
  Mutex running;             // the runner has one stream at a time
  Handle builder = nullptr;  // null: not started
  Handle runner GUARDED_BY(running) = nullptr;
  void run_on(CUstream_st* stream) REQUIRES(running);  // sets the runner's stream
  std::string why_not;                                 // why it is not available; empty: it is
  std::string version;

  // Throws GpuError: refused if cuDNN does not support it, lost if cuDNN reports a GPU fault.
  void check(int status, const char* what) const {
    if (status != kSuccess) fail(status, what);
  }

  Create* create = nullptr;
  Destroy* destroy = nullptr;
  SetStream* set_stream = nullptr;
  ErrorString* error_string = nullptr;
  CreateDescriptor* create_descriptor = nullptr;
  DestroyDescriptor* destroy_descriptor = nullptr;
  Finalize* finalize = nullptr;
  SetAttribute* set_attribute = nullptr;
  GetAttribute* get_attribute = nullptr;
  Execute* execute = nullptr;

 private:
  void fail(int status, const char* what) const;
  void release_stream(CUstream_st* stream);

  const int device_;
  std::optional<device::Stream> idle_stream_;  // exists once the handles do
  CUstream_st* runs_on_ GUARDED_BY(running) = nullptr;
};

class BackendDescriptor {
 public:
  BackendDescriptor(const Library& library, Kind kind);
  ~BackendDescriptor();
  BackendDescriptor(BackendDescriptor&& other) noexcept;
  BackendDescriptor& operator=(BackendDescriptor&& other) noexcept {
    std::swap(library_, other.library_);
    std::swap(made_, other.made_);
    return *this;
  }

  Descriptor get() const noexcept { return made_; }

  template <class T>
  BackendDescriptor& set(Attribute what, Type type, const T& value) {
    library_->check(library_->set_attribute(made_, what, type, 1, &value), "an attribute");
    return *this;
  }
  template <class T>
  BackendDescriptor& set_list(Attribute what, Type type, const T& values) {
    library_->check(
        library_->set_attribute(made_, what, type, static_cast<std::int64_t>(std::size(values)),
                                std::data(values)),
        "an attribute");
    return *this;
  }
  BackendDescriptor& set(Attribute what, const BackendDescriptor& other) {
    return set(what, Type::descriptor, other.made_);
  }
  // Returns at most `max_count` values.
  template <class T>
  std::vector<T> list(Attribute what, Type type, std::size_t max_count) const {
    std::vector<T> values(max_count);
    std::int64_t count = 0;
    library_->check(library_->get_attribute(made_, what, type, static_cast<std::int64_t>(max_count),
                                            &count, values.data()),
                    "an attribute");
    values.resize(std::min(max_count, static_cast<std::size_t>(count)));
    return values;
  }
  std::size_t count(Attribute what, Type type) const;
  BackendDescriptor& finish(const char* what) {
    library_->check(library_->finalize(made_), what);
    return *this;
  }

 private:
  const Library* library_;
  Descriptor made_ = nullptr;
};

}  // namespace sluice::engine::cuda::cudnn

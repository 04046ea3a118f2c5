// cuDNN and its descriptors, as values that clean up after themselves.
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

namespace sluice::engine::cuda::dnn {

// A part of the Context: the library and its handle, or why there is none.
class Library {
 public:
  // Opens it, which is quick, and no more.
  explicit Library(Context& context);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  // Makes the handles, once, which loads most of cuDNN. Throws unavailable where it is not here.
  void start();

  // One owner for each handle: plans are made and measured with the builder's, by whoever holds
  // Context::making; programs run with the other.
  Mutex running;             // the runner has one stream at a time
  Handle builder = nullptr;  // null: not started
  Handle runner GUARDED_BY(running) = nullptr;
  void run_on(CUstream_st* stream) REQUIRES(running);  // what the runner does from now on
  std::string why_not;                                 // it is not here; empty: it is
  std::string version;

  // Throws GpuError: what cuDNN refuses, others may do; a fault that it saw first is the GPU's.
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
  void leave(CUstream_st* stream);

  const int device_;
  std::optional<device::Stream> rest_;  // has nothing to do; there where the handles are
  CUstream_st* runs_on_ GUARDED_BY(running) = nullptr;
};

class Thing {
 public:
  Thing(const Library& library, Kind kind);
  ~Thing();
  Thing(Thing&& other) noexcept;
  Thing& operator=(Thing&& other) noexcept {
    std::swap(library_, other.library_);
    std::swap(made_, other.made_);
    return *this;
  }

  Descriptor get() const noexcept { return made_; }

  template <class T>
  Thing& set(Attribute what, Type type, const T& value) {
    library_->check(library_->set_attribute(made_, what, type, 1, &value), "an attribute");
    return *this;
  }
  template <class T>
  Thing& set_list(Attribute what, Type type, const T& values) {
    library_->check(
        library_->set_attribute(made_, what, type, static_cast<std::int64_t>(std::size(values)),
                                std::data(values)),
        "an attribute");
    return *this;
  }
  Thing& set(Attribute what, const Thing& other) {
    return set(what, Type::descriptor, other.made_);
  }
  // At most `most` values.
  template <class T>
  std::vector<T> list(Attribute what, Type type, std::size_t most) const {
    std::vector<T> values(most);
    std::int64_t count = 0;
    library_->check(library_->get_attribute(made_, what, type, static_cast<std::int64_t>(most),
                                            &count, values.data()),
                    "an attribute");
    values.resize(std::min(most, static_cast<std::size_t>(count)));
    return values;
  }
  std::size_t count(Attribute what, Type type) const;
  Thing& finish(const char* what) {
    library_->check(library_->finalize(made_), what);
    return *this;
  }

 private:
  const Library* library_;
  Descriptor made_ = nullptr;
};

}  // namespace sluice::engine::cuda::dnn

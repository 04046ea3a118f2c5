// The CUDA backend. Each operator family has a file with a list of kernel makers; a node that no
// maker accepts runs on the CPU.
//
// KernelArgs: all addresses are device addresses (of constants too, if reads_constant() says so),
// aligned to 256 bytes; `stream` is the cudaStream_t to enqueue on. run() is captured into a CUDA
// graph: it only enqueues work, and neither allocates nor waits. Preparation happens when the
// kernel is made.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <typeindex>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "device/sampler/gpu_activity.h"
#include "engine/exec/algorithm_cache.h"
#include "engine/exec/kernel.h"
#include "engine/graph/tensor_type.h"
#include "kernels/common/activation.h"
#include "memory/alloc/allocator.h"

struct CUstream_st;  // CUDA's stream, so that this header needs no CUDA

namespace sluice::kernels::cuda {}

namespace sluice::engine::cuda {

using kernels::Activation;

using namespace kernels::cuda;  // this backend binds them to nodes

struct Options {
  int device = 0;                               // CUDA's number
  std::vector<std::string> library_dirs{};      // searched after the loader's default paths
  std::shared_ptr<memory::Allocator> memory{};  // thread-safe device allocator; none: cudaMalloc
  int slots = 2;                                // execution slots: maximum concurrent runs
  // GEMMs of f32 may run on the tensor cores in TF32, with 10 bits of mantissa.
  bool tf32 = false;
  // GEMMs may use split-K with a deterministic reduction. The number of splits depends on the
  // batch: faster for small batches (BERT-base with batch 1: 20 %), but the last bits of a row
  // then depend on the number of rows.
  bool split_k = true;
  // A row has the same bits whatever the number of rows: GEMMs use one algorithm for each n, k and
  // epilogue, without split-K.
  bool batch_invariant = false;
  // Algorithms are chosen by measurement; false: the library's first heuristic result, or one of
  // our kernels that is probably faster.
  bool measure = true;
};

// Reference-counted device memory.
using Memory = std::shared_ptr<void>;
using ConstMemory = std::shared_ptr<const void>;

// What the kernels of one session share on a device. Kernels are made by one thread at a time
// (CudaProgram holds `making`), so makers need no lock.
class Context {
 public:
  // Throws unavailable if there is no such device.
  explicit Context(Options options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Options options;

  // Uploads, packing and measurements run on this stream while kernels are made.
  CUstream_st* stream() const noexcept { return stream_; }
  int multiprocessors() const noexcept { return multiprocessors_; }
  int capability() const noexcept { return capability_; }  // of the device; 90 is 9.0
  // The capability whose code of this binary the device runs (device/gpu_code.h): kernels are
  // chosen by it. Lower than capability() where the driver compiles PTX of an older one.
  int code_capability() const noexcept { return code_capability_; }
  bool has_sm90() const noexcept { return code_capability_ == 90 && capability_ == 90; }
  // Maximum dynamic shared memory of a block, in bytes.
  std::size_t max_shared() const noexcept { return max_shared_; }

  Memory allocate(std::size_t bytes) const;

  // The constant in device memory; constants with equal contents share one copy.
  ConstMemory constant(const Tensor& constant);
  // The constant in another layout: `make(from, to)` enqueues on stream() the kernel that reads the
  // constant and writes `bytes`. Packed once for each content and `layout`, which names everything
  // that the result depends on besides the constant.
  using Packer = std::function<void(const void* from, void* to)>;
  ConstMemory packed(const Tensor& constant, std::string_view layout, std::size_t bytes,
                     const Packer& make);
  std::size_t constant_bytes() const noexcept { return *constant_bytes_; }  // currently allocated

  // The one object of a type that the kernels of a family share (a library handle, compiled
  // kernels), constructed by T(Context&) on first use.
  template <class T>
  T& part() {
    std::shared_ptr<void>& kept = parts_[std::type_index(typeid(T))];
    if (!kept) kept = std::make_shared<T>(*this);
    return *static_cast<T*>(kept.get());
  }

  // Measures the microseconds of what `enqueue` puts on stream(), as part of a CUDA graph, while
  // the device is otherwise idle as far as this process knows. If it does not become idle in time,
  // the choices based on the measurement are not cached.
  double measure_us(const std::function<void()>& enqueue);
  // A buffer to measure with, filled with numbers between -1 and 1. There is one for each `slot`;
  // it is valid until the next call for that slot.
  void* sample(std::size_t slot, std::size_t bytes, DType dtype);
  void end_making();  // frees sample buffers and temporary choices

  // Chosen algorithms by problem description, and compiled code by source text; plans store them.
  // A reader checks that a choice still works, and chooses again if it does not. A choice is cached
  // only if nothing went wrong `since` the mark: no measurement was disturbed and no library failed
  // transiently. Otherwise it is valid until end_making().
  using Choices = AlgorithmCache::Choices;
  using Mark = std::uint64_t;
  Mark mark() const noexcept { return disturbances_; }
  AlgorithmChoice choice(const std::string& key);
  void choose(const std::string& key, std::string value, Mark since);
  void forget(const std::string& key);  // it is not needed any more
  void restore_choices(Choices choices) { choices_.merge(std::move(choices)); }
  Choices choices() const { return choices_.all(); }

  // Called in a handler when other algorithms remain: returns false if this algorithm is not
  // supported and true if it failed transiently; rethrows errors that concern other algorithms too.
  static bool skip_algorithm(const Error& error);
  void disturb() noexcept { ++disturbances_; }  // choices made now are not cached

  // Calls on this device by the whole process.
  device::GpuActivity& activity() const noexcept { return activity_; }

  // Libraries remember their last stream and use it again when they get another: callbacks are
  // called, on any thread, before the stream of an execution slot is destroyed.
  using StreamCallback = std::function<void(CUstream_st* stream)>;
  void on_stream_destroy(StreamCallback callback);
  void notify_stream_destroy(CUstream_st* stream) const;

  Mutex making;  // held while kernels are made

 private:
  using Key = std::array<std::uint64_t, 3>;  // content hash
  struct Sample {
    Memory memory;
    std::size_t bytes = 0;
    DType dtype = DType::none;
  };
  static Key key_of(const Tensor& constant);
  ConstMemory keep(Memory memory, std::size_t bytes);

  int multiprocessors_ = 0, capability_ = 0, code_capability_ = 0;
  std::size_t max_shared_ = 0;
  CUstream_st* stream_ = nullptr;
  std::map<std::pair<Key, std::string>, std::weak_ptr<const void>> constants_;
  std::size_t sweep_at_ = 1024;  // number of entries at which expired ones are erased
  std::map<std::type_index, std::shared_ptr<void>> parts_;
  std::vector<Sample> samples_;
  device::GpuActivity& activity_;
  AlgorithmCache choices_;
  Choices temporary_choices_;  // not cached
  Mark disturbances_ = 0;
  bool waits_for_idle_ = true;  // until the device does not become idle in time
  std::shared_ptr<std::atomic<std::size_t>> constant_bytes_;
  mutable Mutex callbacks_mutex_;
  std::vector<StreamCallback> stream_callbacks_ GUARDED_BY(callbacks_mutex_);
};

// Null if it does not support the node, for its types or shapes.
using Make = std::unique_ptr<Kernel> (*)(const Graph& graph, const Node& node, Context& context);

struct Maker {
  std::string_view op, domain;
  Make make;
};

std::span<const Maker> gemm_kernels();           // Linear, MatMul, Gemm
std::span<const Maker> conv_kernels();           // Conv, MaxPool, AveragePool in domain "sluice"
std::span<const Maker> norm_kernels();           // Norm, LayerNormalization, Softmax
std::span<const Maker> attention_kernels();      // Attention
std::span<const Maker> chain_kernels();          // Chain
std::span<const Maker> elementwise_kernels();    // elementwise operators
std::span<const Maker> data_movement_kernels();  // Transpose, Gather, Concat, Slice, ...
std::span<const Maker> reduce_kernels();         // ReduceMean, GlobalAveragePool, ...
std::span<const Maker> rnn_kernels();            // LSTM, GRU, RNN
std::span<const Maker> quantized_kernels();      // int8 and fp8 GEMM and convolution
std::span<const Maker> token_kernels();          // PoolTokens

// Null if there is no CUDA kernel.
std::unique_ptr<Kernel> make_kernel(const Graph& graph, const Node& node, Context& context);

}  // namespace sluice::engine::cuda

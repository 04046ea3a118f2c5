// CUDA's kernels. A file for each family gives a list of makers; a node that none of them
// takes runs on the CPU.
//
// KernelArgs of these: every address lies on the device (a constant's too, where
// reads_constant() says so), aligned to 256 bytes; `stream` is the cudaStream_t to enqueue on.
// run() is captured into a CUDA graph: it only enqueues, asks for no memory and waits for
// nothing. What it needs to do first, it does where it is made.
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
#include "memory/alloc/allocator.h"

struct CUstream_st;  // CUDA's stream, so that this header needs no CUDA

namespace sluice::kernels::cuda {}

namespace sluice::engine::cuda {

using namespace kernels::cuda;  // this backend binds them to nodes

struct Options {
  int device = 0;                               // CUDA's number
  std::vector<std::string> library_dirs{};      // looked in after the loader's own places
  std::shared_ptr<memory::Allocator> memory{};  // of the device, for threads; none: the driver's
  int lanes = 2;                                // runs of a program at the same time, at most
  // Products of f32 may run on the tensor cores, which read 10 bits of the mantissa.
  bool tf32 = false;
  // Sums may be split into parts, always added in the same order, whose number depends on the
  // batch: quicker for small batches (BERT-base of one: 20 %), and then a row's last bits depend
  // on how many rows there are.
  bool split_sums = true;
  // Each choice among kernels is measured; false: the first that the library proposes, or one of
  // our own that is probably better.
  bool measure = true;
};

// Device memory, or what is in it, for as long as someone holds it.
using Memory = std::shared_ptr<void>;
using ConstMemory = std::shared_ptr<const void>;

// What the kernels of one session share on a device. Kernels are made by one thread at a time
// (CudaProgram sees to it), so makers may use all of it freely.
class Context {
 public:
  // Throws unavailable where there is no such device.
  explicit Context(Options options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Options options;

  // What is uploaded, packed and measured while kernels are made runs here.
  CUstream_st* stream() const noexcept { return stream_; }
  int multiprocessors() const noexcept { return multiprocessors_; }
  int capability() const noexcept { return capability_; }            // 90 is 9.0
  std::size_t most_shared() const noexcept { return most_shared_; }  // bytes a block may have

  Memory allocate(std::size_t bytes) const;

  // On the device, one copy for all constants that hold the same.
  ConstMemory constant(const Tensor& constant);
  // The same in another order: `make(from, to)` enqueues on stream() what reads the constant
  // as it is and writes `bytes`. Made once for each content and `way`, which says all that the
  // result depends on besides the constant.
  using Packer = std::function<void(const void* from, void* to)>;
  ConstMemory packed(const Tensor& constant, std::string_view way, std::size_t bytes,
                     const Packer& make);
  std::size_t constant_bytes() const noexcept { return *constant_bytes_; }  // there now

  // The one object of a type that the kernels of a family share (a library's handle, compiled
  // sources), made by T(Context&) when it is first asked for.
  template <class T>
  T& part() {
    std::shared_ptr<void>& kept = parts_[std::type_index(typeid(T))];
    if (!kept) kept = std::make_shared<T>(*this);
    return *static_cast<T*>(kept.get());
  }

  // Microseconds that what `enqueue` puts on stream() takes, as part of a CUDA graph. Measured
  // while the device is otherwise idle, as far as this process knows; where it is not, for all
  // patience, what is chosen by it is not kept.
  double measure_us(const std::function<void()>& enqueue);
  // Memory to measure with: numbers between -1 and 1 of that type. One for each `slot`, which
  // stays until the next call for it.
  void* sample(std::size_t slot, std::size_t bytes, DType dtype);
  void end_making();  // drops them, and choices that are not kept

  // What measuring found, by what it was measured for, and code that was compiled, by its
  // source; kept in plans. Whoever reads one checks that it still works, and finds it anew
  // where it does not. A choice is kept only if nothing went wrong `since` it was begun: no
  // measurement was disturbed, no library failed for the moment. Otherwise it is good until
  // end_making().
  using Choices = ChoiceTable::Choices;
  using Mark = std::uint64_t;
  Mark mark() const noexcept { return disturbances_; }
  ChoiceTable::Choice choice(const std::string& of);
  void choose(const std::string& of, std::string what, Mark since);
  void forget(const std::string& of);  // nobody will ask for it
  void bring(Choices choices) { choices_.merge(std::move(choices)); }
  Choices choices() const { return choices_.all(); }

  // For an error that is being handled, where there are other ways: false where this one is
  // refused, true where it failed for the moment only; throws it on where it says something about
  // others.
  static bool pass_over(const Error& error);
  void disturb() noexcept { ++disturbances_; }  // what is chosen now is not kept

  // Calls on this device, of the whole process.
  device::GpuActivity& activity() const noexcept { return activity_; }

  // Libraries keep the stream that they ran on last, and look at it again when they get another:
  // each is told, by any thread, before a stream of a lane ends.
  using StreamEnd = std::function<void(CUstream_st* stream)>;
  void tell_of_stream_ends(StreamEnd tell);
  void end_of_stream(CUstream_st* stream) const;

  Mutex making;  // held by whoever makes kernels

 private:
  using Key = std::array<std::uint64_t, 3>;  // of the content
  struct Sample {
    Memory memory;
    std::size_t bytes = 0;
    DType dtype = DType::none;
  };
  static Key key_of(const Tensor& constant);
  ConstMemory keep(Memory memory, std::size_t bytes);

  int multiprocessors_ = 0, capability_ = 0;
  std::size_t most_shared_ = 0;
  CUstream_st* stream_ = nullptr;
  std::map<std::pair<Key, std::string>, std::weak_ptr<const void>> constants_;
  std::size_t sweep_at_ = 1024;  // entries of it, when those that have ended go
  std::map<std::type_index, std::shared_ptr<void>> parts_;
  std::vector<Sample> samples_;
  device::GpuActivity& activity_;
  ChoiceTable choices_;
  Choices passing_;        // those that are not kept
  Mark disturbances_ = 0;  // so far
  bool patient_ = true;    // until a device does not get idle
  std::shared_ptr<std::atomic<std::size_t>> constant_bytes_;
  mutable Mutex telling_;
  std::vector<StreamEnd> stream_ends_ GUARDED_BY(telling_);
};

// Null where it does not take this node: another type, an odd shape.
using Make = std::unique_ptr<Kernel> (*)(const Graph& graph, const Node& node, Context& context);

struct Maker {
  std::string_view op, domain;
  Make make;
};

std::span<const Maker> gemm_kernels();         // Linear, MatMul, Gemm
std::span<const Maker> conv_kernels();         // Conv, MaxPool, AveragePool of "sluice"
std::span<const Maker> norm_kernels();         // Norm, LayerNormalization, Softmax
std::span<const Maker> attention_kernels();    // Attention
std::span<const Maker> chain_kernels();        // Chain
std::span<const Maker> elementwise_kernels();  // the operators of single elements
std::span<const Maker> move_kernels();         // Transpose, Gather, Concat, Slice, ...
std::span<const Maker> reduce_kernels();       // ReduceMean, GlobalAveragePool, ...
std::span<const Maker> recurrent_kernels();    // LSTM, GRU, RNN
std::span<const Maker> quantized_kernels();    // products and convolutions of small numbers

// Null: CUDA has none.
std::unique_ptr<Kernel> make_kernel(const Graph& graph, const Node& node, Context& context);

}  // namespace sluice::engine::cuda

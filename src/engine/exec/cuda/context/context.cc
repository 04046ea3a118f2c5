#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <thread>

#include "base/error.h"
#include "device/cuda/check.h"
#include "device/cuda/cublaslt_functions.h"
#include "device/cuda/stream.h"
#include "device/gpu_code.h"
#include "engine/exec/cuda/context/backend.h"
#include "engine/exec/cuda/context/cuda_graph.h"
#include "tensor/byte_size.h"

namespace sluice::engine::cuda {
namespace {

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  device::check(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

// The first numbers of a sample buffer, which are then repeated.
std::vector<std::byte> random_numbers(DType dtype) {
  constexpr std::size_t kNumbers = 1 << 16;
  std::mt19937 random(1);  // NOLINT: the same each time
  std::uniform_real_distribution<float> number(-1, 1);
  std::vector<std::byte> made(byte_size(Shape{kNumbers}, std::max<std::size_t>(bytes(dtype), 1)));
  const auto fill = [&]<class T>(T /*type*/) {
    for (std::size_t i = 0; i < kNumbers; ++i) {
      const T value(number(random));
      std::memcpy(made.data() + i * sizeof(T), &value, sizeof(T));
    }
  };
  switch (dtype) {
    case DType::f32: fill(0.0f); break;
    case DType::f16: fill(Half()); break;
    case DType::bf16: fill(BFloat16()); break;
    default: break;  // zeros: valid indices
  }
  return made;
}

// Opens cuBLASLt in the background while CUDA initializes, which takes as long. It stays open.
class BackgroundOpen {
 public:
  explicit BackgroundOpen(const std::vector<std::string>& dirs)
      : thread_([dirs] {
          try {
            (void)device::open_cublaslt(dirs);
          } catch (const Error&) {  // reported on first use
          }
        }) {}
  ~BackgroundOpen() { thread_.join(); }
  BackgroundOpen(const BackgroundOpen&) = delete;
  BackgroundOpen& operator=(const BackgroundOpen&) = delete;

 private:
  std::thread thread_;
};

class Events {
 public:
  Events() {
    device::check(cudaEventCreate(&begin));
    device::check(cudaEventCreate(&end));
  }
  ~Events() {
    device::check_in_destructor(cudaEventDestroy(begin));
    device::check_in_destructor(cudaEventDestroy(end));
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  template <class Enqueue>
  double us(cudaStream_t stream, Enqueue&& enqueue) {
    device::check(cudaEventRecord(begin, stream));
    enqueue();
    device::check(cudaEventRecord(end, stream));
    device::check(cudaEventSynchronize(end));
    float ms = 0;
    device::check(cudaEventElapsedTime(&ms, begin, end));
    return static_cast<double>(ms) * 1000;
  }

 private:
  cudaEvent_t begin = nullptr, end = nullptr;
};

// The best of three launches, as part of a CUDA graph.
double timed_us(cudaStream_t stream, const std::function<void()>& enqueue) {
  constexpr double kTarget_us = 400;  // duration of a measurement
  constexpr int kMaxRepeats = 16;
  enqueue();  // warm-up: loads code
  device::check(cudaStreamSynchronize(stream));
  Events events;
  const double once = events.us(stream, enqueue);
  const int times = std::clamp(static_cast<int>(kTarget_us / std::max(once, 1.0)), 1, kMaxRepeats);
  const GraphExec graph = GraphExec::capture(stream, [&] {
    for (int i = 0; i < times; ++i) enqueue();
  });
  graph.launch(stream);
  double best = 1e300;
  for (int i = 0; i < 3; ++i)
    best = std::min(best, events.us(stream, [&] { graph.launch(stream); }));
  return best / times;
}

}  // namespace

Context::Context(Options given)
    : options(std::move(given)),
      activity_(device::GpuActivity::of(options.device)),
      constant_bytes_(std::make_shared<std::atomic<std::size_t>>(0)) {
  int count = 0;
  device::check(cudaDriverGetVersion(&count));  // opens the driver, before the other libraries
  std::optional<BackgroundOpen> libraries;
  if (count > 0) libraries.emplace(options.library_dirs);
  device::check(cudaGetDeviceCount(&count));
  if (options.device < 0 || options.device >= count)
    throw Error(Code::unavailable, "CUDA has no device " + std::to_string(options.device));
  const device::DeviceScope on({options.device});
  multiprocessors_ = attribute(cudaDevAttrMultiProcessorCount, options.device);
  capability_ = 10 * attribute(cudaDevAttrComputeCapabilityMajor, options.device) +
                attribute(cudaDevAttrComputeCapabilityMinor, options.device);
  code_capability_ = device::require_code_for(capability_);
  max_shared_ =
      static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, options.device));
  device::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
}

Context::~Context() {
  parts_.clear();  // libraries may use the stream once more
  device::check_in_destructor(cudaStreamSynchronize(stream_));
  device::check_in_destructor(cudaStreamDestroy(stream_));
}

void Context::on_stream_destroy(StreamCallback callback) {
  const Lock lock(callbacks_mutex_);
  stream_callbacks_.push_back(std::move(callback));
}

void Context::notify_stream_destroy(CUstream_st* stream) const {
  const Lock lock(callbacks_mutex_);
  for (const StreamCallback& callback : stream_callbacks_) callback(stream);
}

Memory Context::allocate(std::size_t bytes) const {
  if (options.memory) {
    return {options.memory->allocate(bytes),
            [bytes, from = options.memory](void* p) { from->deallocate(p, bytes); }};
  }
  const device::DeviceScope on({options.device});
  void* made = nullptr;
  device::check(cudaMalloc(&made, std::max<std::size_t>(bytes, 1)));
  return {made, [](void* p) { device::check_in_destructor(cudaFree(p)); }};
}

// The key is a content hash: programs for other shapes and repeated passes create equal tensors.
Context::Key Context::key_of(const Tensor& constant) {
  std::array<std::uint64_t, 4> sums{0x9e3779b97f4a7c15u, 0xc2b2ae3d27d4eb4fu, 0x165667b19e3779f9u,
                                    0x27d4eb2f165667c5u};
  const auto* const data = static_cast<const std::byte*>(constant.data());
  const std::size_t size = constant.bytes();
  for (std::size_t at = 0; at < size; at += 64) {
    std::array<std::uint64_t, 8> words{};
    std::memcpy(words.data(), data + at, std::min<std::size_t>(64, size - at));
    for (std::size_t i = 0; i < 4; ++i)
      sums[i] = mix(sums[i] ^ words[2 * i], words[2 * i + 1] ^ 0xd6e8feb86659fd93u) + sums[i];
  }
  return {mix(sums[0], sums[1] | 1) ^ sums[2], mix(sums[2], sums[3] | 1) ^ sums[0], size};
}

ConstMemory Context::keep(Memory memory, std::size_t bytes) {
  *constant_bytes_ += bytes;
  const void* const at = memory.get();
  return {at, [memory = std::move(memory), bytes, count = constant_bytes_](const void*) mutable {
            memory.reset();
            *count -= bytes;
          }};
}

ConstMemory Context::constant(const Tensor& constant) {
  return packed(constant, "", constant.bytes(), nullptr);
}

ConstMemory Context::packed(const Tensor& constant, std::string_view layout, std::size_t bytes,
                            const Packer& make) {
  if (constants_.size() >= sweep_at_) {
    std::erase_if(constants_, [](const auto& one) { return one.second.expired(); });
    sweep_at_ = 2 * constants_.size() + 1024;
  }
  std::weak_ptr<const void>& kept = constants_[{key_of(constant), std::string(layout)}];
  if (ConstMemory found = kept.lock()) return found;
  const device::DeviceScope on({options.device});
  Memory made = allocate(bytes);
  const Memory raw = make ? allocate(constant.bytes()) : made;
  if (constant.bytes() > 0)
    device::check(cudaMemcpyAsync(raw.get(), constant.data(), constant.bytes(),
                                  cudaMemcpyHostToDevice, stream_));
  if (make) make(raw.get(), made.get());
  device::check(cudaStreamSynchronize(stream_));
  ConstMemory result = keep(std::move(made), bytes);
  kept = result;
  return result;
}

// Once the device did not become idle in time, the rest of the program is measured without waiting.
double Context::measure_us(const std::function<void()>& enqueue) {
  constexpr Seconds kPatience(0.05);
  double us = 0;
  const auto measure = [&] { us = timed_us(stream_, enqueue); };
  if (!activity_.alone(measure, waits_for_idle_ ? kPatience : Seconds(0))) {
    waits_for_idle_ = false;
    disturb();
  }
  return us;
}

void* Context::sample(std::size_t slot, std::size_t bytes, DType dtype) {
  if (samples_.size() <= slot) samples_.resize(slot + 1);
  Sample& kept = samples_[slot];
  if (kept.memory && kept.bytes >= bytes && kept.dtype == dtype) return kept.memory.get();
  kept = {};
  kept = {allocate(bytes), bytes, dtype};
  const std::vector<std::byte> numbers = random_numbers(dtype);
  auto* const to = static_cast<std::byte*>(kept.memory.get());
  std::size_t done = std::min(numbers.size(), bytes);
  device::check(cudaMemcpyAsync(to, numbers.data(), done, cudaMemcpyHostToDevice, stream_));
  for (; done < bytes; done += std::min(done, bytes - done))
    device::check(cudaMemcpyAsync(to + done, to, std::min(done, bytes - done),
                                  cudaMemcpyDeviceToDevice, stream_));
  device::check(cudaStreamSynchronize(stream_));
  return to;
}

void Context::end_making() {
  samples_.clear();
  temporary_choices_.clear();
  waits_for_idle_ = true;
}

AlgorithmChoice Context::choice(const std::string& key) {
  const auto found = temporary_choices_.find(key);
  if (found != temporary_choices_.end()) return std::make_shared<const std::string>(found->second);
  return choices_.find(key);
}

void Context::choose(const std::string& key, std::string value, Mark since) {
  if (since == disturbances_)
    choices_.set(key, std::move(value));
  else
    temporary_choices_.insert_or_assign(key, std::move(value));
}

void Context::forget(const std::string& key) {
  choices_.erase(key);
  temporary_choices_.erase(key);
}

bool Context::skip_algorithm(const Error& error) {
  const device::GpuStatus status = device::gpu_status_of(error);
  if (status == device::GpuStatus::out_of_memory || status == device::GpuStatus::lost) throw;
  return status == device::GpuStatus::transient;
}

}  // namespace sluice::engine::cuda

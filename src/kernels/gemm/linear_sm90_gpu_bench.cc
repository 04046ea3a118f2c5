// Times of the Linear layers of MiniLM and BERT-base by the Hopper kernel, in each tile, and by
// cuBLASLt with a separate GELU. Not run by default:
//   kernels_gpu_test --gtest_also_run_disabled_tests --gtest_filter=LinearSm90Bench.*
// A time is the median of rounds in which all candidates take turns, each as a CUDA graph of
// several calls; the calls use other operands each, which together do not fit in the L2 cache.
// Limit: 989 TFLOP/s at the full clock, which power does not allow.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>

#include "base/error.h"
#include "device/cuda/cublaslt_functions.h"
#include "kernels/gemm/epilogue_kernel.h"
#include "kernels/gemm/linear_sm90_for_gpu_tests.h"

namespace sluice::kernels::cuda {
namespace {

struct EncoderLayer {
  const char* name;
  int n, k;
  bool gelu = false, residual = false;
};
constexpr EncoderLayer kLayers[] = {
    {"MiniLM qkv", 1152, 384},
    {"MiniLM out + residual", 384, 384, false, true},
    {"MiniLM up + gelu", 1536, 384, true},
    {"MiniLM down + residual", 384, 1536, false, true},
    {"BERT qkv", 2304, 768},
    {"BERT out + residual", 768, 768, false, true},
    {"BERT up + gelu", 3072, 768, true},
    {"BERT down + residual", 768, 3072, false, true},
};
constexpr std::int64_t kRows[] = {165003, 16384, 2048, 128};
constexpr std::int64_t kMaxElements = 165003ll * 3072;  // of x, y and the residual
constexpr std::int64_t kWeightElements = 64ll << 20;    // 128 MiB
constexpr int kRounds = 9;

// Random operands; a call takes the parts of its index, as far as they fit.
struct Pools {
  Pools() {
    const Bits some = random_bits(1 << 20, 1, RealType::f16, 1);
    const Bits small = random_bits(1 << 20, 0.05f, RealType::f16, 2);
    x = filled(kMaxElements, some), residual = filled(kMaxElements, some);
    weight = filled(kWeightElements, small);
    y = device::device_buffer(static_cast<std::size_t>(kMaxElements) * 2);
    workspace = device::device_buffer(kWorkspace);
    device::check(cudaDeviceSynchronize());
  }
  static device::DeviceBuffer filled(std::int64_t elements, const Bits& from) {
    const std::size_t bytes = static_cast<std::size_t>(elements) * 2, part = from.size() * 2;
    device::DeviceBuffer made = device::device_buffer(bytes);
    for (std::size_t at = 0; at < bytes; at += part)
      device::check(cudaMemcpy(static_cast<char*>(made.get()) + at, from.data(),
                               std::min(part, bytes - at), cudaMemcpyDefault));
    return made;
  }
  static void* part(const device::DeviceBuffer& pool, std::int64_t all, std::int64_t one, int i) {
    const std::int64_t parts = std::max<std::int64_t>(all / one, 1);
    return static_cast<std::uint16_t*>(pool.get()) + i % parts * one;
  }

  static constexpr std::size_t kWorkspace = 32 << 20;
  device::DeviceBuffer x, residual, weight, y, workspace;
};

struct Operands {
  void *x, *weight, *bias, *residual, *y;
};
Operands operands_of(const Pools& pools, const EncoderLayer& layer, std::int64_t rows, int i) {
  const std::int64_t n = layer.n, k = layer.k;
  return {Pools::part(pools.x, kMaxElements, rows * k, i),
          Pools::part(pools.weight, kWeightElements, n * k, i), pools.weight.get(),
          Pools::part(pools.residual, kMaxElements, rows * n, i),
          Pools::part(pools.y, kMaxElements, rows * n, i)};
}

using Enqueue = std::function<void(const Operands&, cudaStream_t)>;

// ---- cuBLASLt --------------------------------------------------------------------------------

// y = x * W + bias, or + residual too, by cuBLASLt, which is column-major: its A is W, its B is x.
class Cublaslt {
 public:
  Cublaslt() : call_(device::open_cublaslt({})) { call_.check(call_.create(&handle_)); }
  ~Cublaslt() { call_.destroy(handle_); }
  Cublaslt(const Cublaslt&) = delete;
  Cublaslt& operator=(const Cublaslt&) = delete;

  void set(const EncoderLayer& layer, std::int64_t rows) {
    const auto n = static_cast<std::uint64_t>(layer.n), k = static_cast<std::uint64_t>(layer.k);
    const auto m = static_cast<std::uint64_t>(rows);
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    beta_ = layer.residual ? 1 : 0;
    call_.check(call_.desc_create(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    call_.check(call_.desc_set(desc_, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    call_.check(call_.layout_create(&a_, CUDA_R_16F, n, k, layer.n));
    call_.check(call_.layout_create(&b_, CUDA_R_16F, k, m, layer.k));
    call_.check(call_.layout_create(&d_, CUDA_R_16F, n, m, layer.n));
  }
  void clear() {
    call_.desc_destroy(desc_);
    for (const auto layout : {a_, b_, d_}) call_.layout_destroy(layout);
  }

  std::vector<cublasLtMatmulHeuristicResult_t> algorithms() const {
    cublasLtMatmulPreference_t preference = nullptr;
    const std::size_t workspace = Pools::kWorkspace;
    call_.check(call_.preference_create(&preference));
    call_.check(call_.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                     &workspace, sizeof workspace));
    std::vector<cublasLtMatmulHeuristicResult_t> found(8);
    int count = 0;
    call_.check(
        call_.heuristic(handle_, desc_, a_, b_, d_, d_, preference, 8, found.data(), &count));
    call_.preference_destroy(preference);
    found.resize(static_cast<std::size_t>(count));
    return found;
  }
  void enqueue(const cublasLtMatmulAlgo_t& algo, const Operands& at, void* workspace,
               cudaStream_t stream) const {
    const float alpha = 1;
    call_.check(call_.desc_set(desc_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &at.bias, sizeof at.bias));
    call_.check(call_.matmul(handle_, desc_, &alpha, at.weight, a_, at.x, b_, &beta_,
                             beta_ != 0 ? at.residual : at.y, d_, at.y, d_, &algo, workspace,
                             Pools::kWorkspace, stream));
  }

 private:
  device::CublasLtFunctions call_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, d_ = nullptr;
  float beta_ = 0;
};

// ---- the table -------------------------------------------------------------------------------

class LinearSm90Bench : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_linear_sm90()) GTEST_SKIP() << "needs a Hopper GPU and code for sm_90a";
    prepare_linear_sm90();
    pools_.emplace();
    try {
      cublaslt_.emplace();
    } catch (const Error& error) {
      std::printf("without cuBLASLt: %s\n", std::string(error.reason()).c_str());
    }
  }

  // Calls on the parts of the pools, as a graph.
  std::unique_ptr<TimedGraph> timed(std::string name, const Enqueue& enqueue) {
    return std::make_unique<TimedGraph>(std::move(name), stream_, calls_, [&](int i) {
      enqueue(operands_of(*pools_, layer_, rows_, i), stream_.get());
    });
  }
  void add(std::string name, const Enqueue& enqueue) {
    candidates_.push_back(timed(std::move(name), enqueue));
  }

  // The fastest of the heuristic's algorithms stays.
  void add_cublaslt() {
    cublaslt_->set(layer_, rows_);
    std::unique_ptr<TimedGraph> best;
    for (const auto& found : cublaslt_->algorithms()) try {
        cublaslt_->enqueue(found.algo, operands_of(*pools_, layer_, rows_, 0),
                           pools_->workspace.get(), stream_.get());  // may load its code
        stream_.wait();
        auto next = timed("cuBLASLt", [&](const Operands& at, cudaStream_t stream) {
          cublaslt_->enqueue(found.algo, at, pools_->workspace.get(), stream);
        });
        for (int i = 0; i < 3; ++i) next->run();
        if (best == nullptr || next->us() < best->us()) best = std::move(next);
      } catch (const Error& error) {
        std::printf("an algorithm of cuBLASLt failed: %s\n", std::string(error.reason()).c_str());
      }
    cublaslt_->clear();
    if (best != nullptr) candidates_.push_back(std::move(best));
    if (!layer_.gelu) return;
    add("separate gelu", [this](const Operands& at, cudaStream_t stream) {
      enqueue_epilogue({.type = RealType::f16,
                        .x = at.y,
                        .rows = rows_,
                        .n = layer_.n,
                        .activation = Activation::gelu},
                       stream);
    });
  }

  void add_linear(const std::string& name, std::optional<LinearTile> tile, bool starts_early) {
    add(name, [=, this](const Operands& at, cudaStream_t stream) {
      enqueue_linear_sm90({.x = at.x,
                           .weight = at.weight,
                           .bias = at.bias,
                           .activation = layer_.gelu ? Activation::gelu : Activation::none,
                           .residual = layer_.residual ? at.residual : nullptr,
                           .y = at.y,
                           .rows = rows_,
                           .n = layer_.n,
                           .k = layer_.k,
                           .starts_early = starts_early,
                           .tile = tile},
                          stream);
    });
  }

  void measure(const EncoderLayer& layer, std::int64_t rows) {
    layer_ = layer, rows_ = rows;
    calls_ = rows > 100000 ? 4 : rows > 10000 ? 8 : 32;
    candidates_.clear();
    if (cublaslt_) add_cublaslt();
    add_linear("chosen", std::nullopt, false);
    add_linear("chosen, starts early", std::nullopt, true);
    for (const LinearTile tile : kLinearTiles) add_linear(to_string(tile), tile, false);
    for (int round = 0; round < kRounds; ++round)
      for (const auto& candidate : candidates_) candidate->run();
    print();
  }

  void print() const {
    const double operations = 2.0 * static_cast<double>(rows_) * layer_.n * layer_.k;
    int multiprocessors = 0;
    device::check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
    std::printf("%s: m %lld n %d k %d, chosen %s\n", layer_.name, static_cast<long long>(rows_),
                layer_.n, layer_.k,
                to_string(choose_linear_tile(rows_, layer_.n, layer_.k, multiprocessors)));
    for (const auto& candidate : candidates_)
      std::printf("  %-22s %9.2f us %7.1f TFLOP/s\n", candidate->name().c_str(), candidate->us(),
                  operations / candidate->us() * 1e-6);
    std::fflush(stdout);
  }

  Watchdog watchdog_{120};
  const device::Stream stream_{device::DeviceId{0}};
  std::optional<Pools> pools_;
  std::optional<Cublaslt> cublaslt_;
  EncoderLayer layer_{};
  std::int64_t rows_ = 0;
  int calls_ = 0;
  std::vector<std::unique_ptr<TimedGraph>> candidates_;
};

TEST_F(LinearSm90Bench, DISABLED_PrintsTheTimesOfEncoderLayers) {
  for (const std::int64_t rows : kRows)
    for (const EncoderLayer& layer : kLayers) measure(layer, rows);
}

}  // namespace
}  // namespace sluice::kernels::cuda

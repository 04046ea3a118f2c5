#include "device/cuda/cublaslt.h"

#include <fmt/core.h>

#include <array>

#include "base/error.h"
#include "device/cuda/check.h"
#include "device/cuda/cublaslt_functions.h"
#include "device/cuda/device_buffer.h"

namespace sluice::device {

namespace {

constexpr std::size_t kScratch = std::size_t{64} << 20;  // Hopper's best algorithms need 32 MiB
constexpr std::array<std::string_view, 2> kNames{"libcublasLt.so.13", "libcublasLt.so.12"};

struct Types {
  cudaDataType_t input, output, scale;
  cublasComputeType_t compute;
};

Types types_of(Precision precision) {
  switch (precision) {
    case Precision::fp64: return {CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
    case Precision::fp32: return {CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case Precision::tf32: return {CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32};
    case Precision::bf16: return {CUDA_R_16BF, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case Precision::fp16: return {CUDA_R_16F, CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case Precision::fp8: return {CUDA_R_8F_E4M3, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case Precision::int8: return {CUDA_R_8I, CUDA_R_32I, CUDA_R_32I, CUBLAS_COMPUTE_32I};
  }
  throw Error(Code::internal, "gemm: unknown precision");
}

// alpha = 1 and beta = 0 in the scale type of the GEMM.
struct Scalars {
  explicit Scalars(cudaDataType_t type) {
    if (type == CUDA_R_64F)
      as_double = 1;
    else if (type == CUDA_R_32I)
      as_int = 1;
    else
      as_float = 1;
  }
  union {
    double as_double;
    float as_float;
    std::int32_t as_int;
  };
  double zero = 0;  // all bits zero: beta in every type
};

}  // namespace

Library open_cublaslt(std::span<const std::string> dirs) try {
  return Library(kNames, dirs);
} catch (const Error& e) {
  throw Error(Code::unavailable, std::string(e.reason()) +
                                     "; it comes with the CUDA toolkit and with PyTorch: install "
                                     "libcublas-13-0 or put its folder in LD_LIBRARY_PATH");
}

#define SLUICE_FIND(NAME) library.find<decltype(NAME)>(#NAME)
CublasLtFunctions::CublasLtFunctions(const Library& library)
    : create(SLUICE_FIND(cublasLtCreate)),
      destroy(SLUICE_FIND(cublasLtDestroy)),
      version(SLUICE_FIND(cublasLtGetVersion)),
      status_name(SLUICE_FIND(cublasLtGetStatusName)),
      desc_create(SLUICE_FIND(cublasLtMatmulDescCreate)),
      desc_destroy(SLUICE_FIND(cublasLtMatmulDescDestroy)),
      desc_set(SLUICE_FIND(cublasLtMatmulDescSetAttribute)),
      layout_create(SLUICE_FIND(cublasLtMatrixLayoutCreate)),
      layout_destroy(SLUICE_FIND(cublasLtMatrixLayoutDestroy)),
      layout_set(SLUICE_FIND(cublasLtMatrixLayoutSetAttribute)),
      preference_create(SLUICE_FIND(cublasLtMatmulPreferenceCreate)),
      preference_destroy(SLUICE_FIND(cublasLtMatmulPreferenceDestroy)),
      preference_set(SLUICE_FIND(cublasLtMatmulPreferenceSetAttribute)),
      heuristic(SLUICE_FIND(cublasLtMatmulAlgoGetHeuristic)),
      algo_check(SLUICE_FIND(cublasLtMatmulAlgoCheck)),
      matmul(SLUICE_FIND(cublasLtMatmul)) {}
#undef SLUICE_FIND

void CublasLtFunctions::check(cublasStatus_t status, SourceLocation where) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  device::check(GpuLibrary::cublaslt, static_cast<int>(status),
                std::string("cuBLASLt: ") + status_name(status), where);
}

struct CublasLt::Impl {
  explicit Impl(std::span<const std::string> dirs)
      : library(open_cublaslt(dirs)), call(library), scratch(device_buffer(kScratch)) {
    call.check(call.create(&handle));
  }
  ~Impl() { call.destroy(handle); }

  Library library;
  CublasLtFunctions call;
  DeviceBuffer scratch;
  cublasLtHandle_t handle = nullptr;
};

CublasLt::CublasLt(DeviceId device, std::span<const std::string> dirs) {
  const DeviceScope on(device);
  impl_ = std::make_unique<Impl>(dirs);
}

CublasLt::~CublasLt() = default;

std::string CublasLt::version() const {
  const auto v = impl_->call.version();
  return v >= 100000 ? fmt::format("cuBLASLt {}.{}.{}", v / 10000, v / 100 % 100, v % 100)
                     : fmt::format("cuBLASLt {}", v);
}

struct Gemm::Impl {
  Impl(const CublasLt& library, Precision precision)
      : lt(*library.impl_), types(types_of(precision)), scalars(types.scale) {}
  ~Impl() {
    for (auto* layout : {a, b, d})
      if (layout != nullptr) lt.call.layout_destroy(layout);
    if (preference != nullptr) lt.call.preference_destroy(preference);
    if (desc != nullptr) lt.call.desc_destroy(desc);
  }

  void describe(Precision precision, GemmShape shape) {
    const auto& call = lt.call;
    const cublasOperation_t transposed = CUBLAS_OP_T;
    call.check(call.desc_create(&desc, types.compute, types.scale));
    call.check(call.desc_set(desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed));
    if (precision == Precision::fp8) {
      const std::int8_t fast = 1;
      call.check(call.desc_set(desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast));
    }
    const auto m = static_cast<std::uint64_t>(shape.m), n = static_cast<std::uint64_t>(shape.n),
               k = static_cast<std::uint64_t>(shape.k);
    call.check(call.layout_create(&a, types.input, k, m, shape.k));
    call.check(call.layout_create(&b, types.input, k, n, shape.k));
    call.check(call.layout_create(&d, types.output, m, n, shape.m));
  }

  void find_algorithms(int max_algorithms) {
    const auto& call = lt.call;
    call.check(call.preference_create(&preference));
    call.check(call.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kScratch,
                                   sizeof kScratch));
    algorithms.resize(static_cast<std::size_t>(max_algorithms));
    int found = 0;
    call.check(call.heuristic(lt.handle, desc, a, b, d, d, preference, max_algorithms,
                              algorithms.data(), &found));
    algorithms.resize(static_cast<std::size_t>(found));
    std::erase_if(algorithms,
                  [](const auto& algorithm) { return algorithm.state != CUBLAS_STATUS_SUCCESS; });
    if (algorithms.empty())
      throw Error(Code::unavailable, "cuBLASLt has no kernel for it on this GPU");
  }

  CublasLt::Impl& lt;
  Types types;
  Scalars scalars;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  std::vector<cublasLtMatmulHeuristicResult_t> algorithms;
};

Gemm::Gemm(const CublasLt& library, Precision precision, GemmShape shape, int max_algorithms)
    : impl_(std::make_unique<Impl>(library, precision)) {
  impl_->describe(precision, shape);
  impl_->find_algorithms(max_algorithms);
}

Gemm::~Gemm() = default;
Gemm::Gemm(Gemm&&) noexcept = default;

std::size_t Gemm::algorithms() const noexcept { return impl_->algorithms.size(); }

void Gemm::run(std::size_t algorithm, const void* a, const void* b, void* d,
               const Stream& stream) const {
  const auto& x = *impl_;
  const DeviceScope on(stream.device());
  x.lt.call.check(x.lt.call.matmul(
      x.lt.handle, x.desc, &x.scalars.as_double, a, x.a, b, x.b, &x.scalars.zero, d, x.d, d, x.d,
      &x.algorithms.at(algorithm).algo, x.lt.scratch.get(), kScratch, stream.get()));
}

}  // namespace sluice::device

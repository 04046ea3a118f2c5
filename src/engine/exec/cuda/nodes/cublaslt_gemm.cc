#include "engine/exec/cuda/nodes/cublaslt_gemm.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "device/cuda/check.h"
#include "device/cuda/cublaslt_functions.h"
#include "device/cuda/stream.h"
#include "tensor/byte_size.h"

namespace sluice::engine::cuda {
namespace {

constexpr std::size_t kMaxWorkspace = std::size_t{32}
                                      << 20;  // the best algorithms on Hopper use it
constexpr int kMaxAlgorithms = 12;

// The library and its handle, or why it is not available.
struct Lt {
  explicit Lt(Context& context) {
    try {
      const device::Library library = device::open_cublaslt(context.options.library_dirs);
      call.emplace(library);
      call->check(call->create(&handle));
    } catch (const Error& error) {
      if (device::gpu_status_of(error) != device::GpuStatus::refused) throw;  // may work later
      why_not = error.reason();
    }
  }
  ~Lt() {
    if (handle != nullptr) call->destroy(handle);
  }
  Lt(const Lt&) = delete;
  Lt& operator=(const Lt&) = delete;

  std::optional<device::CublasLtFunctions> call;
  cublasLtHandle_t handle = nullptr;  // null: not available
  std::string why_not;
};

struct Types {
  cudaDataType_t data, scale;
  cublasComputeType_t compute;
  cudaDataType_t result = data;
};

std::optional<Types> types_of(DType dtype, bool tf32) {
  switch (dtype) {
    case DType::f64: return Types{CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
    case DType::f32:
      return Types{CUDA_R_32F, CUDA_R_32F,
                   tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F};
    case DType::f16: return Types{CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DType::bf16: return Types{CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DType::i8: return Types{CUDA_R_8I, CUDA_R_32I, CUBLAS_COMPUTE_32I, CUDA_R_32I};
    case DType::f8e4m3fn: return Types{CUDA_R_8F_E4M3, CUDA_R_32F, CUBLAS_COMPUTE_32F, CUDA_R_32F};
    default: return std::nullopt;
  }
}

cublasLtEpilogue_t epilogue_of(const CublasltGemm& gemm) {
  switch (gemm.epilogue) {
    case CublasltGemm::Epilogue::relu:
      return gemm.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case CublasltGemm::Epilogue::gelu_tanh:
      return gemm.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    case CublasltGemm::Epilogue::none: break;
  }
  return gemm.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

// The key of the chosen algorithm. A plan with unknown keys is measured again.
std::string algorithm_key(const CublasltGemm& p, const Options& options) {
  return fmt::format("gemm {}{} {}{}x{}{}x{} {}x{},{},{} {} {} {} {} {}{}", to_string(p.dtype),
                     options.tf32 && p.dtype == DType::f32 ? "/tf32" : "", p.m,
                     p.transposed_a ? "t" : "", p.k, p.transposed_b ? "t" : "", p.n, p.batch,
                     p.stride_a, p.stride_b, p.stride_d, p.alpha, p.beta, p.bias,
                     static_cast<int>(p.epilogue), p.alignment, options.split_k ? " split" : "");
}

std::uint64_t unsigned_of(std::int64_t size) { return static_cast<std::uint64_t>(size); }

// A number in the scale type of the GEMM.
struct Scalar {
  Scalar(float value, cudaDataType_t type) {
    if (type == CUDA_R_64F) {
      const double wide = value;
      std::memcpy(bytes, &wide, sizeof wide);
    } else if (type == CUDA_R_32I) {
      const auto integer = static_cast<std::int32_t>(value);
      std::memcpy(bytes, &integer, sizeof integer);
    } else {
      std::memcpy(bytes, &value, sizeof value);
    }
  }
  alignas(double) unsigned char bytes[sizeof(double)] = {};
};

}  // namespace

// cuBLASLt is column-major: its A is our b and its B our a.
struct CublasltPlan::Impl {
  // With the library's first choice.
  struct Heuristic {};
  Impl(const Context& context, const CublasltGemm& of, Lt& library, const Types& as, Heuristic)
      : Impl(of, library, as) {
    const auto found = algorithms(context);
    best = found.front().algo;
    scratch = found.front().workspaceSize;
  }
  Impl(Context& context, const CublasltGemm& of, Lt& library, const Types& as)
      : Impl(of, library, as) {
    if (context.options.batch_invariant)
      choose_invariant(context);
    else
      choose(context);
  }
  Impl(const CublasltGemm& of, Lt& library, const Types& as)
      : gemm(of),
        types(as),
        lt(library),
        call(*library.call),
        alpha(of.alpha, as.scale),
        beta(of.beta, as.scale),
        a(layout(as.data, of.transposed_a ? of.m : of.k, of.transposed_a ? of.k : of.m,
                 of.stride_a)),
        b(layout(as.data, of.transposed_b ? of.k : of.n, of.transposed_b ? of.n : of.k,
                 of.stride_b)),
        d(layout(as.result, of.n, of.m, of.stride_d)) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t,
                                 decltype(device::CublasLtFunctions::layout_destroy)>;

  Layout layout(cudaDataType_t type, std::int64_t rows, std::int64_t columns,
                std::int64_t stride) const {
    cublasLtMatrixLayout_t made = nullptr;
    call.check(call.layout_create(&made, type, unsigned_of(rows), unsigned_of(columns), rows));
    Layout owner(made, call.layout_destroy);
    if (gemm.batch == 1) return owner;
    const auto count = static_cast<std::int32_t>(gemm.batch);
    call.check(call.layout_set(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
    call.check(
        call.layout_set(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
    return owner;
  }

  // It holds the address of the bias, so each run makes one.
  struct Desc {
    Desc(const Impl& of, const void* bias) : call(of.call) {
      const cublasOperation_t transposed = CUBLAS_OP_T;
      const cublasLtEpilogue_t epilogue = epilogue_of(of.gemm);
      call.check(call.desc_create(&desc, of.types.compute, of.types.scale));
      if (of.gemm.transposed_b) set(CUBLASLT_MATMUL_DESC_TRANSA, transposed);
      if (of.gemm.transposed_a) set(CUBLASLT_MATMUL_DESC_TRANSB, transposed);
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
      if (of.gemm.bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    }
    ~Desc() { call.desc_destroy(desc); }
    Desc(const Desc&) = delete;
    Desc& operator=(const Desc&) = delete;

    template <class T>
    void set(cublasLtMatmulDescAttributes_t what, const T& value) const {
      call.check(call.desc_set(desc, what, &value, sizeof value));
    }

    const device::CublasLtFunctions& call;
    cublasLtMatmulDesc_t desc = nullptr;
  };

  void choose(Context& context);
  void choose_invariant(Context& context);
  bool restore(const std::string& choice);
  std::string serialized() const;
  std::vector<cublasLtMatmulHeuristicResult_t> algorithms(const Context& context) const;
  Pointers samples(Context& context) const;
  void run(const Pointers& at, const cublasLtMatmulAlgo_t& algo, std::size_t workspace,
           cudaStream_t stream) const;

  const CublasltGemm gemm;
  const Types types;
  Lt& lt;
  const device::CublasLtFunctions& call;
  const Scalar alpha, beta;
  const Layout a, b, d;
  cublasLtMatmulAlgo_t best{};
  std::size_t scratch = 0;
  double us = 0;
};

void CublasltPlan::Impl::choose(Context& context) {
  const std::string key = algorithm_key(gemm, context.options);
  const Context::Mark since = context.mark();
  if (const AlgorithmChoice known = context.choice(key); known != nullptr && restore(*known))
    return;
  const auto found = algorithms(context);
  best = found.front().algo;
  scratch = found.front().workspaceSize;
  if (context.options.measure) {
    const Pointers at = samples(context);
    us = 1e300;
    bool had_transient_failure = false;
    for (const auto& algorithm : found) try {
        const double took =
            context.measure_us([&] { run(at, algorithm.algo, kMaxWorkspace, context.stream()); });
        if (took >= us) continue;
        us = took;
        best = algorithm.algo;
        scratch = algorithm.workspaceSize;
      } catch (const Error& error) {  // returned by the heuristic, but not supported
        had_transient_failure |= Context::skip_algorithm(error);
      }
    if (us == 1e300 && had_transient_failure)
      throw device::GpuError(device::GpuStatus::transient, "no GEMM algorithm works now: " + key);
    if (us == 1e300)
      throw Error(Code::unavailable, "no algorithm of cuBLASLt's heuristic works: " + key);
  }
  context.choose(key, serialized(), since);
}

// The algorithm for a number of rows that keeps every GPU busy, used for all numbers of rows. One
// that does not take this number is an error: another would give rows other bits.
void CublasltPlan::Impl::choose_invariant(Context& context) {
  constexpr std::int64_t kRows = 4096;
  CublasltGemm typical = gemm;
  typical.m = kRows;
  const std::string key = "for any rows: " + algorithm_key(typical, context.options);
  if (const AlgorithmChoice known = context.choice(key)) {
    if (restore(*known)) return;
    throw Error(Code::internal, "cuBLASLt's algorithm for this GEMM does not take " +
                                    std::to_string(gemm.m) + " rows");
  }
  const Context::Mark since = context.mark();
  const Impl of(context, typical, lt, types, Heuristic());
  best = of.best;
  scratch = of.scratch;
  context.choose(key, serialized(), since);
  if (!restore(serialized()))
    throw Error(Code::internal, "cuBLASLt's algorithm for this GEMM does not take " +
                                    std::to_string(gemm.m) + " rows");
}

// Hexadecimal words: the time in nanoseconds, the workspace size and the cublasLtMatmulAlgo_t.
std::string CublasltPlan::Impl::serialized() const {
  std::string text = fmt::format("{:x} {:x}", static_cast<std::uint64_t>(us * 1000), scratch);
  for (const std::uint64_t word : best.data) text += fmt::format(" {:x}", word);
  return text;
}

bool CublasltPlan::Impl::restore(const std::string& choice) {
  std::vector<std::uint64_t> words;
  const char* at = choice.c_str();
  for (char* end = nullptr;; at = end) {
    const std::uint64_t word = std::strtoull(at, &end, 16);
    if (end == at) break;
    words.push_back(word);
  }
  if (words.size() != 2 + std::size(best.data)) return false;
  std::copy(words.begin() + 2, words.end(), std::begin(best.data));
  const Desc desc(*this, nullptr);
  cublasLtMatmulHeuristicResult_t result{};
  if (call.algo_check(lt.handle, desc.desc, b.get(), a.get(), d.get(), d.get(), &best, &result) !=
      CUBLAS_STATUS_SUCCESS)
    return false;
  us = static_cast<double>(words[0]) / 1000;
  scratch = result.workspaceSize;
  return scratch <= kMaxWorkspace;
}

std::vector<cublasLtMatmulHeuristicResult_t> CublasltPlan::Impl::algorithms(
    const Context& context) const {
  cublasLtMatmulPreference_t preference = nullptr;
  call.check(call.preference_create(&preference));
  const std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, decltype(call.preference_destroy)> owner(
      preference, call.preference_destroy);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t what, const auto& value) {
    call.check(call.preference_set(preference, what, &value, sizeof value));
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMaxWorkspace);
  // The in-place reduction scheme adds the splits in any order: it is not deterministic.
  const std::uint32_t split = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      context.options.split_k && !context.options.batch_invariant ? split : 0u);
  const auto aligned = static_cast<std::uint32_t>(gemm.alignment);
  for (const auto which :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(which, aligned);
  const Desc desc(*this, nullptr);
  std::vector<cublasLtMatmulHeuristicResult_t> found(kMaxAlgorithms);
  int count = 0;
  call.check(call.heuristic(lt.handle, desc.desc, b.get(), a.get(), d.get(), d.get(), preference,
                            kMaxAlgorithms, found.data(), &count));
  found.resize(static_cast<std::size_t>(count));
  std::erase_if(found, [](const auto& one) { return one.state != CUBLAS_STATUS_SUCCESS; });
  if (found.empty())
    throw Error(Code::unavailable, "cuBLASLt has no algorithm for this GEMM on this GPU");
  return found;
}

CublasltPlan::Pointers CublasltPlan::Impl::samples(Context& context) const {
  const auto sample = [&](std::size_t slot, std::int64_t one, std::int64_t stride) {
    const std::int64_t all = one + stride * (gemm.batch - 1);
    return context.sample(slot, byte_size(Shape{all}, gemm.dtype), gemm.dtype);
  };
  Pointers at{};
  at.a = sample(0, gemm.m * gemm.k, gemm.stride_a);
  at.b = sample(1, gemm.k * gemm.n, gemm.stride_b);
  const bool wider = types.result != types.data;  // f32 or i32 from 8-bit operands
  at.d = sample(2, gemm.m * gemm.n * (wider ? 4 : 1), gemm.stride_d);
  at.c = gemm.beta != 0 ? sample(3, gemm.m * gemm.n, gemm.stride_d) : at.d;
  if (gemm.bias) at.bias = sample(4, gemm.n, 0);
  at.scratch = context.sample(5, kMaxWorkspace, DType::u8);
  return at;
}

void CublasltPlan::Impl::run(const Pointers& at, const cublasLtMatmulAlgo_t& algo,
                             std::size_t workspace, cudaStream_t stream) const {
  const Desc desc(*this, at.bias);
  call.check(call.matmul(lt.handle, desc.desc, alpha.bytes, at.b, b.get(), at.a, a.get(),
                         beta.bytes, at.c == nullptr ? at.d : at.c, d.get(), at.d, d.get(), &algo,
                         at.scratch, workspace, stream));
}

CublasltPlan::CublasltPlan(Context& context, const CublasltGemm& gemm) {
  const std::optional<Types> types = types_of(gemm.dtype, context.options.tf32);
  if (!types) throw Error(Code::unavailable, "cuBLASLt does not support this type");
  Lt& lt = context.part<Lt>();
  if (lt.handle == nullptr) throw Error(Code::unavailable, lt.why_not);
  const device::DeviceScope on({context.options.device});
  impl_ = std::make_unique<Impl>(context, gemm, lt, *types);
}

CublasltPlan::~CublasltPlan() = default;

std::size_t CublasltPlan::scratch() const noexcept { return impl_->scratch; }
double CublasltPlan::us() const noexcept { return impl_->us; }

void CublasltPlan::run(const Pointers& at, CUstream_st* stream) const {
  impl_->run(at, impl_->best, impl_->scratch, stream);
}

std::string cublaslt_version(Context& context) {
  const Lt& lt = context.part<Lt>();
  if (lt.handle == nullptr) return {};
  const std::size_t version = lt.call->version();  // 130100
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::unique_ptr<CublasltPlan> plan_cublaslt(Context& context, const CublasltGemm& gemm) try {
  return std::make_unique<CublasltPlan>(context, gemm);
} catch (const Error& error) {
  if (error.code() != Code::unavailable) throw;
  return nullptr;
}

}  // namespace sluice::engine::cuda

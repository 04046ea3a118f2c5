#include "device/gpu_status.h"

#include <algorithm>
#include <array>

namespace sluice::device {
namespace {

enum class Meaning { refused, out_of_memory, transient, lost, unsure };

// Codes by number, so that this needs no header of theirs; gpu_status_test.cc names each.

constexpr int kCudaOutOfMemory = 2;
constexpr std::array kCudaLost{3,   4,   53,  127, 214, 220, 226, 700, 702, 709,
                               710, 714, 715, 716, 717, 718, 719, 721, 810, 911};
constexpr std::array kCudaTransient{46, 205, 206, 216, 600, 802, 805, 806, 807, 808, 809, 901, 909};
constexpr std::array kCudaRefused{
    1,   9,   12,  13,  16,  17,  18,  19,  20,  21,  22,  23,  24,  26,  27,  28,  31,  32,
    34,  35,  36,  37,  43,  44,  45,  49,  52,  65,  66,  67,  68,  69,  98,  100, 101, 102,
    103, 200, 207, 208, 209, 210, 211, 212, 213, 215, 217, 218, 219, 221, 222, 223, 224, 225,
    300, 301, 302, 303, 400, 402, 500, 701, 703, 704, 705, 708, 711, 712, 713, 720, 800, 801,
    803, 804, 811, 812, 900, 902, 903, 904, 905, 906, 907, 908, 910, 912, 913, 914, 915};

template <std::size_t N>
bool among(const std::array<int, N>& codes, int code) {
  return std::ranges::binary_search(codes, code);
}

Meaning of_cuda(int code) {
  if (code == kCudaOutOfMemory) return Meaning::out_of_memory;
  if (among(kCudaLost, code)) return Meaning::lost;
  if (among(kCudaTransient, code)) return Meaning::transient;
  return among(kCudaRefused, code) ? Meaning::refused : Meaning::unsure;
}

Meaning of_cublaslt(int code) {
  switch (code) {
    case 3: return Meaning::out_of_memory;  // ALLOC_FAILED
    case 7:                                 // INVALID_VALUE
    case 8:                                 // ARCH_MISMATCH
    case 15:                                // NOT_SUPPORTED
    case 16: return Meaning::refused;       // LICENSE_ERROR
    default: return Meaning::unsure;        // NOT_INITIALIZED, MAPPING_ERROR, EXECUTION_FAILED, ...
  }
}

// Families by their thousands: 2000 wrong parameters, 3000 not supported, 4000 internal, 5000 runs.
Meaning of_cudnn(int code) {
  switch (code) {
    case 1001:                             // NOT_INITIALIZED: also for want of memory
    case 2007: return Meaning::unsure;     // STREAM_MISMATCH: also where the stream has a fault
    case 1006: return Meaning::transient;  // RUNTIME_IN_PROGRESS
    case 4001:                             // COMPILATION_FAILED
    case 4005: return Meaning::refused;    // BAD_LAUNCH_PARAM
    case 4003:                             // HOST_ALLOCATION_FAILED
    case 4004: return Meaning::out_of_memory;
    default: return code >= 1000 && code < 4000 ? Meaning::refused : Meaning::unsure;
  }
}

// A compiler: it never says anything about the GPU.
Meaning of_nvrtc(int code) {
  switch (code) {
    case 1:                                  // OUT_OF_MEMORY
    case 14: return Meaning::out_of_memory;  // PCH_CREATE_HEAP_EXHAUSTED
    case 2:                                  // PROGRAM_CREATION_FAILURE
    case 7:                                  // BUILTIN_OPERATION_FAILURE
    case 11:                                 // INTERNAL_ERROR
    case 16: return Meaning::transient;      // CANCELLED
    default: return Meaning::refused;
  }
}

Meaning meaning_of(GpuLibrary library, int code) {
  switch (library) {
    case GpuLibrary::cuda: return of_cuda(code);
    case GpuLibrary::cublaslt: return of_cublaslt(code);
    case GpuLibrary::cudnn: return of_cudnn(code);
    case GpuLibrary::nvrtc: break;
  }
  return of_nvrtc(code);
}

// Classifies an unspecified failure by the state of the device.
GpuStatus by_state(int state) {
  if (state == 0) return GpuStatus::transient;
  switch (of_cuda(state)) {
    case Meaning::lost:
    case Meaning::unsure: return GpuStatus::lost;
    case Meaning::out_of_memory: return GpuStatus::out_of_memory;
    default: return GpuStatus::transient;
  }
}

Code code_of(GpuStatus status) {
  if (status == GpuStatus::refused) return Code::unavailable;
  return status == GpuStatus::out_of_memory ? Code::exhausted : Code::internal;
}

}  // namespace

std::string_view to_string(GpuStatus status) noexcept {
  switch (status) {
    case GpuStatus::ok: return "ok";
    case GpuStatus::refused: return "refused";
    case GpuStatus::out_of_memory: return "out_of_memory";
    case GpuStatus::transient: return "transient";
    case GpuStatus::lost: break;
  }
  return "lost";
}

GpuStatus classify(GpuLibrary library, int code, const std::function<int()>& ask_device) {
  if (code == 0) return GpuStatus::ok;
  switch (meaning_of(library, code)) {
    case Meaning::refused: return GpuStatus::refused;
    case Meaning::out_of_memory: return GpuStatus::out_of_memory;
    case Meaning::transient: return GpuStatus::transient;
    case Meaning::lost: return GpuStatus::lost;
    case Meaning::unsure: break;
  }
  return by_state(ask_device());
}

GpuError::GpuError(GpuStatus status, const std::string& message, SourceLocation where)
    : Error(code_of(status), message, where), status_(status) {}

GpuStatus gpu_status_of(const Error& error) noexcept {
  if (const auto* const known = dynamic_cast<const GpuError*>(&error)) return known->status();
  if (error.code() == Code::exhausted) return GpuStatus::out_of_memory;
  return error.code() == Code::internal ? GpuStatus::lost : GpuStatus::refused;
}

}  // namespace sluice::device

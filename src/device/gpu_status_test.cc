#include "device/gpu_status.h"

#include <gtest/gtest.h>

namespace sluice::device {
namespace {

struct Case {
  GpuLibrary library;
  int code;
  const char* name;
  GpuStatus want;     // on a device that is well
  bool asks = false;  // the code alone does not decide: on a faulted device it is lost
};

constexpr auto kCuda = GpuLibrary::cuda, kLt = GpuLibrary::cublaslt, kDnn = GpuLibrary::cudnn,
               kNvrtc = GpuLibrary::nvrtc;
constexpr auto kRefused = GpuStatus::refused, kMemory = GpuStatus::out_of_memory,
               kTransient = GpuStatus::transient, kLost = GpuStatus::lost;

constexpr Case kCases[] = {
    {kCuda, 0, "cudaSuccess", GpuStatus::ok},
    {kCuda, 1, "cudaErrorInvalidValue", kRefused},
    {kCuda, 2, "cudaErrorMemoryAllocation", kMemory},
    {kCuda, 3, "cudaErrorInitializationError", kLost},
    {kCuda, 4, "cudaErrorCudartUnloading", kLost},
    {kCuda, 9, "cudaErrorInvalidConfiguration", kRefused},
    {kCuda, 25, "cudaErrorSynchronizationError", kTransient, true},
    {kCuda, 35, "cudaErrorInsufficientDriver", kRefused},
    {kCuda, 46, "cudaErrorDevicesUnavailable", kTransient},
    {kCuda, 53, "cudaErrorPriorLaunchFailure", kLost},
    {kCuda, 98, "cudaErrorInvalidDeviceFunction", kRefused},
    {kCuda, 100, "cudaErrorNoDevice", kRefused},
    {kCuda, 101, "cudaErrorInvalidDevice", kRefused},
    {kCuda, 127, "cudaErrorStartupFailure", kLost},
    {kCuda, 200, "cudaErrorInvalidKernelImage", kRefused},
    {kCuda, 201, "cudaErrorDeviceUninitialized", kTransient, true},
    {kCuda, 205, "cudaErrorMapBufferObjectFailed", kTransient},
    {kCuda, 209, "cudaErrorNoKernelImageForDevice", kRefused},
    {kCuda, 214, "cudaErrorECCUncorrectable", kLost},
    {kCuda, 216, "cudaErrorDeviceAlreadyInUse", kTransient},
    {kCuda, 218, "cudaErrorInvalidPtx", kRefused},
    {kCuda, 220, "cudaErrorNvlinkUncorrectable", kLost},
    {kCuda, 221, "cudaErrorJitCompilerNotFound", kRefused},
    {kCuda, 222, "cudaErrorUnsupportedPtxVersion", kRefused},
    {kCuda, 226, "cudaErrorContained", kLost},
    {kCuda, 300, "cudaErrorInvalidSource", kRefused},
    {kCuda, 304, "cudaErrorOperatingSystem", kTransient, true},
    {kCuda, 400, "cudaErrorInvalidResourceHandle", kRefused},
    {kCuda, 401, "cudaErrorIllegalState", kTransient, true},
    {kCuda, 500, "cudaErrorSymbolNotFound", kRefused},
    {kCuda, 600, "cudaErrorNotReady", kTransient},
    {kCuda, 700, "cudaErrorIllegalAddress", kLost},
    {kCuda, 701, "cudaErrorLaunchOutOfResources", kRefused},
    {kCuda, 702, "cudaErrorLaunchTimeout", kLost},
    {kCuda, 709, "cudaErrorContextIsDestroyed", kLost},
    {kCuda, 710, "cudaErrorAssert", kLost},
    {kCuda, 712, "cudaErrorHostMemoryAlreadyRegistered", kRefused},
    {kCuda, 714, "cudaErrorHardwareStackError", kLost},
    {kCuda, 715, "cudaErrorIllegalInstruction", kLost},
    {kCuda, 716, "cudaErrorMisalignedAddress", kLost},
    {kCuda, 717, "cudaErrorInvalidAddressSpace", kLost},
    {kCuda, 718, "cudaErrorInvalidPc", kLost},
    {kCuda, 719, "cudaErrorLaunchFailure", kLost},
    {kCuda, 720, "cudaErrorCooperativeLaunchTooLarge", kRefused},
    {kCuda, 721, "cudaErrorTensorMemoryLeak", kLost},
    {kCuda, 800, "cudaErrorNotPermitted", kRefused},
    {kCuda, 801, "cudaErrorNotSupported", kRefused},
    {kCuda, 802, "cudaErrorSystemNotReady", kTransient},
    {kCuda, 803, "cudaErrorSystemDriverMismatch", kRefused},
    {kCuda, 805, "cudaErrorMpsConnectionFailed", kTransient},
    {kCuda, 806, "cudaErrorMpsRpcFailure", kTransient},
    {kCuda, 807, "cudaErrorMpsServerNotReady", kTransient},
    {kCuda, 808, "cudaErrorMpsMaxClientsReached", kTransient},
    {kCuda, 809, "cudaErrorMpsMaxConnectionsReached", kTransient},
    {kCuda, 810, "cudaErrorMpsClientTerminated", kLost},
    {kCuda, 900, "cudaErrorStreamCaptureUnsupported", kRefused},
    {kCuda, 901, "cudaErrorStreamCaptureInvalidated", kTransient},
    {kCuda, 906, "cudaErrorStreamCaptureImplicit", kRefused},
    {kCuda, 909, "cudaErrorTimeout", kTransient},
    {kCuda, 911, "cudaErrorExternalDevice", kLost},
    {kCuda, 912, "cudaErrorInvalidClusterSize", kRefused},
    {kCuda, 999, "cudaErrorUnknown", kTransient, true},
    {kCuda, 12345, "a code of a later CUDA", kTransient, true},
    {kLt, 0, "CUBLAS_STATUS_SUCCESS", GpuStatus::ok},
    {kLt, 1, "CUBLAS_STATUS_NOT_INITIALIZED", kTransient, true},
    {kLt, 3, "CUBLAS_STATUS_ALLOC_FAILED", kMemory},
    {kLt, 7, "CUBLAS_STATUS_INVALID_VALUE", kRefused},
    {kLt, 8, "CUBLAS_STATUS_ARCH_MISMATCH", kRefused},
    {kLt, 11, "CUBLAS_STATUS_MAPPING_ERROR", kTransient, true},
    {kLt, 13, "CUBLAS_STATUS_EXECUTION_FAILED", kTransient, true},
    {kLt, 14, "CUBLAS_STATUS_INTERNAL_ERROR", kTransient, true},
    {kLt, 15, "CUBLAS_STATUS_NOT_SUPPORTED", kRefused},
    {kLt, 16, "CUBLAS_STATUS_LICENSE_ERROR", kRefused},
    {kLt, 77, "a code of a later cuBLASLt", kTransient, true},
    {kDnn, 0, "CUDNN_STATUS_SUCCESS", GpuStatus::ok},
    {kDnn, 1001, "CUDNN_STATUS_NOT_INITIALIZED", kTransient, true},
    {kDnn, 1002, "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH", kRefused},
    {kDnn, 1003, "CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH", kRefused},
    {kDnn, 1004, "CUDNN_STATUS_DEPRECATED", kRefused},
    {kDnn, 1005, "CUDNN_STATUS_LICENSE_ERROR", kRefused},
    {kDnn, 1006, "CUDNN_STATUS_RUNTIME_IN_PROGRESS", kTransient},
    {kDnn, 1008, "CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED", kRefused},
    {kDnn, 2000, "CUDNN_STATUS_BAD_PARAM", kRefused},
    {kDnn, 2001, "CUDNN_STATUS_INVALID_VALUE", kRefused},
    {kDnn, 2003, "CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER", kRefused},
    {kDnn, 2007, "CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH", kTransient, true},
    {kDnn, 2012, "CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE", kRefused},
    {kDnn, 3000, "CUDNN_STATUS_NOT_SUPPORTED", kRefused},
    {kDnn, 3001, "CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN", kRefused},
    {kDnn, 3007, "CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH", kRefused},
    {kDnn, 3014, "CUDNN_STATUS_NOT_SUPPORTED_INVALID_DYNAMIC_SHAPE", kRefused},
    {kDnn, 4000, "CUDNN_STATUS_INTERNAL_ERROR", kTransient, true},
    {kDnn, 4001, "CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED", kRefused},
    {kDnn, 4002, "CUDNN_STATUS_INTERNAL_ERROR_UNEXPECTED_VALUE", kTransient, true},
    {kDnn, 4003, "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED", kMemory},
    {kDnn, 4004, "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", kMemory},
    {kDnn, 4005, "CUDNN_STATUS_INTERNAL_ERROR_BAD_LAUNCH_PARAM", kRefused},
    {kDnn, 4006, "CUDNN_STATUS_INTERNAL_ERROR_TEXTURE_CREATION_FAILED", kTransient, true},
    {kDnn, 5000, "CUDNN_STATUS_EXECUTION_FAILED", kTransient, true},
    {kDnn, 5001, "CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER", kTransient, true},
    {kDnn, 5002, "CUDNN_STATUS_EXECUTION_FAILED_CUBLAS", kTransient, true},
    {kDnn, 5003, "CUDNN_STATUS_EXECUTION_FAILED_CUDART", kTransient, true},
    {kNvrtc, 0, "NVRTC_SUCCESS", GpuStatus::ok},
    {kNvrtc, 1, "NVRTC_ERROR_OUT_OF_MEMORY", kMemory},
    {kNvrtc, 2, "NVRTC_ERROR_PROGRAM_CREATION_FAILURE", kTransient},
    {kNvrtc, 3, "NVRTC_ERROR_INVALID_INPUT", kRefused},
    {kNvrtc, 5, "NVRTC_ERROR_INVALID_OPTION", kRefused},
    {kNvrtc, 6, "NVRTC_ERROR_COMPILATION", kRefused},
    {kNvrtc, 7, "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE", kTransient},
    {kNvrtc, 11, "NVRTC_ERROR_INTERNAL_ERROR", kTransient},
    {kNvrtc, 14, "NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED", kMemory},
    {kNvrtc, 16, "NVRTC_ERROR_CANCELLED", kTransient},
};

TEST(GpuStatus, EachCodeIsClassifiedOnAHealthyDevice) {
  for (const Case& one : kCases) {
    bool queried = false;
    const auto well = [&] {
      queried = true;
      return 0;
    };
    EXPECT_EQ(to_string(classify(one.library, one.code, well)), to_string(one.want)) << one.name;
    EXPECT_EQ(queried, one.asks) << one.name;
  }
}

TEST(GpuStatus, AnUnnamedFailureIsTheDevicesFaultWhereItHasOne) {
  for (const Case& one : kCases)
    for (const int fault : {700, 719, 999}) {
      const GpuStatus want = one.asks ? kLost : one.want;
      EXPECT_EQ(classify(one.library, one.code, [=] { return fault; }), want) << one.name;
    }
}

TEST(GpuStatus, AnUnnamedFailureMayBeALackOfMemory) {
  EXPECT_EQ(classify(kDnn, 1001, [] { return 2; }), kMemory);
  EXPECT_EQ(classify(kLt, 14, [] { return 600; }), kTransient);
}

TEST(GpuStatus, AnErrorHasTheCodeThatItsCallersActOn) {
  EXPECT_EQ(GpuError(kRefused, "").code(), Code::unavailable);
  EXPECT_EQ(GpuError(kMemory, "").code(), Code::exhausted);
  EXPECT_EQ(GpuError(kTransient, "").code(), Code::internal);
  EXPECT_EQ(GpuError(kLost, "").code(), Code::internal);
}

TEST(GpuStatus, OtherErrorsAreJudgedByTheirCode) {
  EXPECT_EQ(gpu_status_of(GpuError(kTransient, "")), kTransient);
  EXPECT_EQ(gpu_status_of(Error(Code::exhausted, "")), kMemory);
  EXPECT_EQ(gpu_status_of(Error(Code::internal, "")), kLost);
  EXPECT_EQ(gpu_status_of(Error(Code::unavailable, "")), kRefused);
  EXPECT_EQ(gpu_status_of(Error(Code::invalid_argument, "")), kRefused);
}

}  // namespace
}  // namespace sluice::device

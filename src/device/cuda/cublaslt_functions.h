// The functions of cuBLASLt that we call, found in the library when it is opened.
#pragma once

#include <cublasLt.h>

#include <span>
#include <string>

#include "base/source_location.h"
#include "device/library.h"

namespace sluice::device {

// Throws unavailable when it is not here, naming what to install.
Library open_cublaslt(std::span<const std::string> dirs);

// Each under its own name. The library stays open for good, so they may outlive it.
struct CublasLtFunctions {
  explicit CublasLtFunctions(const Library& library);

  // Throws GpuError.
  void check(cublasStatus_t status, SourceLocation where = SourceLocation::here()) const;

  decltype(cublasLtCreate)* create;
  decltype(cublasLtDestroy)* destroy;
  decltype(cublasLtGetVersion)* version;
  decltype(cublasLtGetStatusName)* status_name;
  decltype(cublasLtMatmulDescCreate)* desc_create;
  decltype(cublasLtMatmulDescDestroy)* desc_destroy;
  decltype(cublasLtMatmulDescSetAttribute)* desc_set;
  decltype(cublasLtMatrixLayoutCreate)* layout_create;
  decltype(cublasLtMatrixLayoutDestroy)* layout_destroy;
  decltype(cublasLtMatrixLayoutSetAttribute)* layout_set;
  decltype(cublasLtMatmulPreferenceCreate)* preference_create;
  decltype(cublasLtMatmulPreferenceDestroy)* preference_destroy;
  decltype(cublasLtMatmulPreferenceSetAttribute)* preference_set;
  decltype(cublasLtMatmulAlgoGetHeuristic)* heuristic;
  decltype(cublasLtMatmulAlgoCheck)* algo_check;
  decltype(cublasLtMatmul)* matmul;
};

}  // namespace sluice::device

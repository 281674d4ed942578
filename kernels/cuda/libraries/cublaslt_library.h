// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublasLt.h>
#include <memory>
#include <string>
#include <string_view>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/libraries/dynamic_library.h"

#define LOCKSTEP_CUBLASLT_FUNCTIONS(FUNCTION)    \
  FUNCTION(cublasLtCreate)                       \
  FUNCTION(cublasLtDestroy)                      \
  FUNCTION(cublasLtGetStatusName)                \
  FUNCTION(cublasLtGetStatusString)              \
  FUNCTION(cublasLtGetProperty)                  \
  FUNCTION(cublasLtMatmul)                       \
  FUNCTION(cublasLtMatmulAlgoCheck)              \
  FUNCTION(cublasLtMatmulAlgoGetHeuristic)       \
  FUNCTION(cublasLtMatmulAlgoConfigGetAttribute) \
  FUNCTION(cublasLtMatmulDescCreate)             \
  FUNCTION(cublasLtMatmulDescDestroy)            \
  FUNCTION(cublasLtMatmulDescSetAttribute)       \
  FUNCTION(cublasLtMatmulPreferenceCreate)       \
  FUNCTION(cublasLtMatmulPreferenceDestroy)      \
  FUNCTION(cublasLtMatmulPreferenceSetAttribute) \
  FUNCTION(cublasLtMatrixLayoutCreate)           \
  FUNCTION(cublasLtMatrixLayoutDestroy)          \
  FUNCTION(cublasLtMatrixLayoutSetAttribute)

namespace lockstep::cuda {

/// cuBLASLt's functions under their own names.
struct CublasLt {
#define LOCKSTEP_MEMBER(name) decltype(&::name) name = nullptr;
  LOCKSTEP_CUBLASLT_FUNCTIONS(LOCKSTEP_MEMBER)
#undef LOCKSTEP_MEMBER
};

LibraryName cublaslt_name();

/// Finds every function of `library`. Throws EnvironmentError.
CublasLt load_cublaslt(const DynamicLibrary& library);

/// cuBLASLt, opened by the first call. Throws EnvironmentError where that fails, at every call.
const CublasLt& cublaslt();
/// Its file, opened by the first call of either. Throws as cublaslt().
const DynamicLibrary& cublaslt_file();

/// "13.1.0"
std::string cublaslt_version();

/// Throws for a status that is not success, as check(cudaError_t) does.
void check(cublasStatus_t status, std::string_view what);

/// The handle for `device`, shared by all GEMMs that are alive.
std::shared_ptr<cublasLtContext> cublaslt_handle(const Device& device);

}  // namespace lockstep::cuda

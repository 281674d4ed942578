// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cudnn_graph.h>
#include <memory>
#include <string>
#include <string_view>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/libraries/dynamic_library.h"

#define LOCKSTEP_CUDNN_FUNCTIONS(FUNCTION) \
  FUNCTION(cudnnCreate)                    \
  FUNCTION(cudnnDestroy)                   \
  FUNCTION(cudnnSetStream)                 \
  FUNCTION(cudnnGetErrorString)            \
  FUNCTION(cudnnGetLastErrorString)        \
  FUNCTION(cudnnGetProperty)               \
  FUNCTION(cudnnGetCudartVersion)          \
  FUNCTION(cudnnBackendCreateDescriptor)   \
  FUNCTION(cudnnBackendDestroyDescriptor)  \
  FUNCTION(cudnnBackendSetAttribute)       \
  FUNCTION(cudnnBackendGetAttribute)       \
  FUNCTION(cudnnBackendFinalize)           \
  FUNCTION(cudnnBackendExecute)

namespace lockstep::cuda {

/// cuDNN's functions under their own names.
struct Cudnn {
#define LOCKSTEP_MEMBER(name) decltype(&::name) name = nullptr;
  LOCKSTEP_CUDNN_FUNCTIONS(LOCKSTEP_MEMBER)
#undef LOCKSTEP_MEMBER
};

LibraryName cudnn_name();

/// Finds every function of `library`. Throws EnvironmentError.
Cudnn load_cudnn(const DynamicLibrary& library);

/// cuDNN, opened by the first call. Throws EnvironmentError where that fails, at every call.
const Cudnn& cudnn();
/// Its file, opened by the first call of either. Throws as cudnn().
const DynamicLibrary& cudnn_file();

/// "9.19.0"
std::string cudnn_version();
/// 91900 for 9.19.0
int cudnn_number();

/// NVRTC, by which cuDNN compiles some kernels while the program runs, and which cudnn() opens for
/// it.
struct Compiler {
  std::string file;      ///< empty: not found
  std::string why_none;  ///< why not
  std::string hint;      ///< what to do then
};
const Compiler& compiler();
LibraryName nvrtc_name();

/// "CUDNN_STATUS_NOT_SUPPORTED, ...", with the reason that cuDNN gave last.
std::string words_of(cudnnStatus_t status);

/// Whether `status` says that this one plan does not work, so that another may: it is not
/// supported, does not fit, or its kernel was not compiled or loaded. Not where memory lacks, or
/// the library itself.
bool refuses(cudnnStatus_t status);

/// Throws for a status that is not success, as check(cudaError_t) does, with cuDNN's own words.
void check(cudnnStatus_t status, std::string_view what);

/// The handle for `device` and its compute stream, shared by all convolutions that are alive.
std::shared_ptr<cudnnContext> cudnn_handle(const Device& device);

}  // namespace lockstep::cuda

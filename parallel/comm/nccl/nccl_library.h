// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>
#include <string>

#include "kernels/cuda/libraries/dynamic_library.h"

#define LOCKSTEP_NCCL_FUNCTIONS(FUNCTION) \
  FUNCTION(ncclAllGather)                 \
  FUNCTION(ncclAllReduce)                 \
  FUNCTION(ncclBroadcast)                 \
  FUNCTION(ncclCommAbort)                 \
  FUNCTION(ncclCommDestroy)               \
  FUNCTION(ncclCommFinalize)              \
  FUNCTION(ncclCommGetAsyncError)         \
  FUNCTION(ncclCommInitRankScalable)      \
  FUNCTION(ncclCommSplit)                 \
  FUNCTION(ncclGetErrorString)            \
  FUNCTION(ncclGetLastError)              \
  FUNCTION(ncclGetUniqueId)               \
  FUNCTION(ncclGetVersion)                \
  FUNCTION(ncclGroupEnd)                  \
  FUNCTION(ncclGroupStart)                \
  FUNCTION(ncclRecv)                      \
  FUNCTION(ncclSend)

namespace lockstep {

/// NCCL's functions under their own names.
struct Nccl {
#define LOCKSTEP_MEMBER(name) decltype(&::name) name = nullptr;
  LOCKSTEP_NCCL_FUNCTIONS(LOCKSTEP_MEMBER)
#undef LOCKSTEP_MEMBER
};

/// `file`: empty means libnccl.so.2.
cuda::LibraryName nccl_name(const std::string& file = {});

struct OpenNccl {
  Nccl functions;
  std::string path;  ///< of the file, links followed
};

/// The library, opened by the first call and kept. Throws EnvironmentError where that fails, at
/// every call. In one thread.
const Nccl& open_nccl(const std::string& file = {});
const OpenNccl& open_nccl_file(const std::string& file = {});

/// "is version 2.25.1, and 2.26.0 or later of 2 is wanted", of a code as NCCL_VERSION_CODE; empty
/// where that will do.
std::string why_unfit_nccl(int code);

/// What ncclGetVersion() says: a code as NCCL_VERSION_CODE. Throws EnvironmentError: another major
/// version than was built against, or older than 2.26.
int checked_version(const Nccl& nccl, const cuda::LibraryName& name);

/// "2.28.9"
std::string version_text(int code);

/// "remote process exited or there was a network error: <what NCCL said last>"
std::string error_text(const Nccl& nccl, ncclResult_t status, ncclComm_t comm);

}  // namespace lockstep

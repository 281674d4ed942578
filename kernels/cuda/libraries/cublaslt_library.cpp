// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/cublaslt_library.h"

#include <map>

#include "kernels/cuda/libraries/package_names.h"
#include "lockstep/error.h"

namespace lockstep::cuda {
namespace {

std::string hint_for(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "the device has no memory left for cuBLASLt, or the driver is too old: see nvidia-smi";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "cuBLASLt does not know this device: a newer CUDA toolkit may";
    default:
      return "CUBLASLT_LOG_LEVEL=5 makes cuBLASLt say more";
  }
}

/// Of all statuses, none has a meaning before the library is known to be the right one.
std::string refuse_cublaslt(void* library) {
  auto* const ask = function_of<decltype(cublasLtGetProperty)>(library, "cublasLtGetProperty");
  LibraryVersion found;
  if (ask == nullptr) return "is not cuBLASLt: it lacks cublasLtGetProperty";
  if (ask(MAJOR_VERSION, &found.major) != CUBLAS_STATUS_SUCCESS ||
      ask(MINOR_VERSION, &found.minor) != CUBLAS_STATUS_SUCCESS)
    found = {};
  return why_unfit(found, {CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR});
}

int version_part(const CublasLt& library, libraryPropertyType part) {
  int value = 0;
  check(library.cublasLtGetProperty(part, &value), "cuBLASLt: version");
  return value;
}

}  // namespace

LibraryName cublaslt_name() {
  return {.file = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR),
          .version = fmt::format("{}.{}.{}", CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH),
          .how_to_install = how_to_install(
              "cublas",
              CUDART_VERSION / 1000,
              fmt::format("{}.{}", CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR),
              fmt::format("libcublas-{}-{}", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10)),
          .refuse = refuse_cublaslt};
}

CublasLt load_cublaslt(const DynamicLibrary& library) {
  CublasLt functions;
#define LOCKSTEP_FIND(name) library.find(functions.name, #name);
  LOCKSTEP_CUBLASLT_FUNCTIONS(LOCKSTEP_FIND)
#undef LOCKSTEP_FIND
  return functions;
}

const CublasLt& cublaslt() {
  static const CublasLt functions = load_cublaslt(cublaslt_file());
  return functions;
}

const DynamicLibrary& cublaslt_file() {
  static const DynamicLibrary library(cublaslt_name());
  return library;
}

std::string cublaslt_version() {
  const CublasLt& library = cublaslt();
  return fmt::format("{}.{}.{}",
                     version_part(library, MAJOR_VERSION),
                     version_part(library, MINOR_VERSION),
                     version_part(library, PATCH_LEVEL));
}

void check(cublasStatus_t status, std::string_view what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const CublasLt& library = cublaslt();
  const std::string message = fmt::format("{}: {} ({})",
                                          what,
                                          library.cublasLtGetStatusName(status),
                                          library.cublasLtGetStatusString(status));
  if (status == CUBLAS_STATUS_ALLOC_FAILED)
    throw OutOfMemory(message, "use a smaller micro-batch or model, or a device with more memory");
  throw EnvironmentError(message, hint_for(status));
}

std::shared_ptr<cublasLtContext> cublaslt_handle(const Device& device) {
  // A process makes its kernels in one thread.
  static std::map<int, std::weak_ptr<cublasLtContext>> handles;
  std::weak_ptr<cublasLtContext>& known = handles[device.ordinal];
  if (auto handle = known.lock()) return handle;
  cublasLtHandle_t made = nullptr;
  check(cublaslt().cublasLtCreate(&made), "cuBLASLt: handle");
  const std::shared_ptr<cublasLtContext> handle(
      made, [](cublasLtHandle_t last) { cublaslt().cublasLtDestroy(last); });
  known = handle;
  return handle;
}

}  // namespace lockstep::cuda

// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/cudnn_library.h"

#include <array>
#include <map>

#include "core/base/error.h"

namespace lockstep::cuda {
namespace {

std::string hint_for(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_NOT_INITIALIZED:
    case CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED:
    case CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH:
      return "cuDNN's libraries must lie in one folder and be of one version; the driver must be "
             "one that they support";
    default:
      return "CUDNN_LOGLEVEL_DBG=3 CUDNN_LOGDEST_DBG=stderr make cuDNN say more";
  }
}

/// cuDNN looks for it where the dynamic linker does, but finds one that is open already.
std::string open_compiler() {
  const int major = CUDART_VERSION / 1000;
  try {
    DynamicLibrary library({.file = fmt::format("libnvrtc.so.{}", major),
                            .version = fmt::format("CUDA {}", major),
                            .how_to_install = fmt::format("install NVRTC of CUDA {}", major)});
    return {};
  } catch (const EnvironmentError& error) {
    return error.what();
  }
}

int version_part(const Cudnn& library, libraryPropertyType part) {
  int value = 0;
  check(library.cudnnGetProperty(part, &value), "cuDNN: version");
  return value;
}

}  // namespace

LibraryName cudnn_name() {
  return {.file = fmt::format("libcudnn.so.{}", CUDNN_MAJOR),
          .version = fmt::format("{}.{}.{}", CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL),
          .how_to_install =
              fmt::format("install cuDNN {} for CUDA {}", CUDNN_MAJOR, CUDART_VERSION / 1000)};
}

Cudnn load_cudnn(const DynamicLibrary& library) {
  Cudnn functions;
#define LOCKSTEP_FIND(name) library.find(functions.name, #name);
  LOCKSTEP_CUDNN_FUNCTIONS(LOCKSTEP_FIND)
#undef LOCKSTEP_FIND
  LibraryVersion found;
  if (functions.cudnnGetProperty(MAJOR_VERSION, &found.major) != CUDNN_STATUS_SUCCESS ||
      functions.cudnnGetProperty(MINOR_VERSION, &found.minor) != CUDNN_STATUS_SUCCESS)
    found = {};
  check_version(library.name(), found, {CUDNN_MAJOR, CUDNN_MINOR});
  const int cuda = int(functions.cudnnGetCudartVersion() / 1000);
  if (cuda != CUDART_VERSION / 1000)
    throw EnvironmentError(fmt::format("{} is made for CUDA {}, but this program for CUDA {}",
                                       library.name().file,
                                       cuda,
                                       CUDART_VERSION / 1000),
                           library.name().how_to_install);
  return functions;
}

const std::string& why_no_compiler() {
  static const std::string why = open_compiler();
  return why;
}

const Cudnn& cudnn() {
  static const Cudnn functions = [] {
    why_no_compiler();
    return load_cudnn(DynamicLibrary(cudnn_name()));
  }();
  return functions;
}

std::string cudnn_version() {
  const Cudnn& library = cudnn();
  return fmt::format("{}.{}.{}",
                     version_part(library, MAJOR_VERSION),
                     version_part(library, MINOR_VERSION),
                     version_part(library, PATCH_LEVEL));
}

std::string words_of(cudnnStatus_t status) {
  std::array<char, 1024> details{};
  cudnn().cudnnGetLastErrorString(details.data(), details.size());
  std::string words = fmt::format(
      "{}{}{}", cudnn().cudnnGetErrorString(status), details[0] ? ", " : "", details.data());
  const bool wants_compiler = status == CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED ||
                              status == CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING;
  if (wants_compiler && !why_no_compiler().empty()) words += "; " + why_no_compiler();
  return words;
}

bool refuses(cudnnStatus_t status) {
  if (status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
      status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
    return false;
  switch (CUDNN_STATUS_CATEGORY(status)) {
    case CUDNN_STATUS_BAD_PARAM:
    case CUDNN_STATUS_NOT_SUPPORTED:
    case CUDNN_STATUS_INTERNAL_ERROR:
    case CUDNN_STATUS_EXECUTION_FAILED:
      return true;
    default:
      return false;
  }
}

void check(cudnnStatus_t status, std::string_view what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const std::string message = fmt::format("{}: {}", what, words_of(status));
  if (status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
    throw OutOfMemory(message, "use a smaller micro-batch or model, or a device with more memory");
  throw EnvironmentError(message, hint_for(status));
}

std::shared_ptr<cudnnContext> cudnn_handle(const Device& device) {
  // A process makes its kernels in one thread. A stream belongs to one device.
  static std::map<cudaStream_t, std::weak_ptr<cudnnContext>> handles;
  std::weak_ptr<cudnnContext>& known = handles[device.compute];
  if (auto handle = known.lock()) return handle;
  cudnnHandle_t made = nullptr;
  check(cudnn().cudnnCreate(&made), "cuDNN: handle");
  const std::shared_ptr<cudnnContext> handle(
      made, [](cudnnHandle_t last) { cudnn().cudnnDestroy(last); });
  check(cudnn().cudnnSetStream(made, device.compute), "cuDNN: stream");
  known = handle;
  return handle;
}

}  // namespace lockstep::cuda

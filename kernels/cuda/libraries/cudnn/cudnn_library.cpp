// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/cudnn/cudnn_library.h"

#include <array>
#include <map>

#include "kernels/cuda/libraries/cublaslt_library.h"
#include "kernels/cuda/libraries/library_file.h"
#include "kernels/cuda/libraries/package_names.h"
#include "lockstep/error.h"

namespace lockstep::cuda {
namespace {

/// CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED, which the first headers of cuDNN 9 lack.
constexpr int kSublibraryLoadingFailed = 1008;

std::string hint_for(cudnnStatus_t status) {
  const bool parts = status == CUDNN_STATUS_NOT_INITIALIZED ||
                     status == CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH ||
                     int(status) == kSublibraryLoadingFailed;
  return parts
             ? "cuDNN's libraries must lie in one folder, be of one version and find the driver's "
               "libcuda.so.1; the driver must be one that they support"
             : "CUDNN_LOGLEVEL_DBG=3 CUDNN_LOGDEST_DBG=stderr make cuDNN say more";
}

constexpr int kCudaMajor = CUDART_VERSION / 1000, kCudaMinor = CUDART_VERSION % 1000 / 10;

/// Empty where it is the same.
std::string why_other_cuda(int cuda) {
  if (cuda == kCudaMajor) return {};
  return fmt::format("is made for CUDA {}, and for CUDA {} is wanted", cuda, kCudaMajor);
}

/// Of the file alone: cuDNN's parts, once they are open, serve whatever cuDNN is opened next.
std::string refuse_cudnn_file(const std::string& file) {
  std::optional<LibraryVersion> found = version_in_name(file);
  const auto major = defined_beside(file, "cudnn_version.h", "CUDNN_MAJOR");
  const auto minor = defined_beside(file, "cudnn_version.h", "CUDNN_MINOR");
  if (!found && major && minor) found = LibraryVersion{*major, *minor};
  const std::string why = found ? why_unfit(*found, {CUDNN_MAJOR, CUDNN_MINOR}) : std::string();
  if (!why.empty()) return why;
  std::optional<int> cuda = cuda_of_package(file, "nvidia_cudnn");
  if (!cuda) {
    const auto toolkit = defined_beside(file, "cuda_runtime_api.h", "CUDART_VERSION");
    if (toolkit) cuda = *toolkit / 1000;
  }
  return why_other_cuda(cuda.value_or(kCudaMajor));
}

std::string refuse_cudnn(void* library) {
  auto* const ask = function_of<decltype(cudnnGetProperty)>(library, "cudnnGetProperty");
  auto* const ask_cuda =
      function_of<decltype(cudnnGetCudartVersion)>(library, "cudnnGetCudartVersion");
  if (ask == nullptr || ask_cuda == nullptr) return "is not cuDNN: it lacks cudnnGetProperty";
  LibraryVersion found;
  if (ask(MAJOR_VERSION, &found.major) != CUDNN_STATUS_SUCCESS ||
      ask(MINOR_VERSION, &found.minor) != CUDNN_STATUS_SUCCESS)
    found = {};
  const std::string why = why_unfit(found, {CUDNN_MAJOR, CUDNN_MINOR});
  if (!why.empty()) return why;
  return why_other_cuda(int(ask_cuda() / 1000));
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
          .how_to_install = how_to_install("cudnn",
                                           kCudaMajor,
                                           fmt::format("{}.{}", CUDNN_MAJOR, CUDNN_MINOR),
                                           fmt::format("cudnn9-cuda-{}", kCudaMajor)),
          .refuse_file = refuse_cudnn_file,
          .refuse = refuse_cudnn,
          .asked_once = true};
}

Cudnn load_cudnn(const DynamicLibrary& library) {
  Cudnn functions;
#define LOCKSTEP_FIND(name) library.find(functions.name, #name);
  LOCKSTEP_CUDNN_FUNCTIONS(LOCKSTEP_FIND)
#undef LOCKSTEP_FIND
  return functions;
}

LibraryName nvrtc_name() {
  return {
      .file = fmt::format("libnvrtc.so.{}", kCudaMajor),
      .version = fmt::format("CUDA {}", kCudaMajor),
      .how_to_install = how_to_install(
          "cuda-nvrtc", kCudaMajor, "", fmt::format("cuda-nvrtc-{}-{}", kCudaMajor, kCudaMinor))};
}

const Compiler& compiler() {
  static const Compiler found = [] {
    Compiler result;
    try {
      result.file = DynamicLibrary(nvrtc_name()).path();
    } catch (const EnvironmentError& error) {
      result.why_none = error.what();
      result.hint = error.hint();
    }
    return result;
  }();
  return found;
}

const DynamicLibrary& cudnn_file() {
  static const DynamicLibrary library = [] {
    // cuDNN looks for both where the dynamic linker does, but finds what is open already.
    compiler();
    cublaslt_file();
    return DynamicLibrary(cudnn_name());
  }();
  return library;
}

const Cudnn& cudnn() {
  static const Cudnn functions = load_cudnn(cudnn_file());
  return functions;
}

int cudnn_number() {
  const Cudnn& library = cudnn();
  return 10000 * version_part(library, MAJOR_VERSION) + 100 * version_part(library, MINOR_VERSION) +
         version_part(library, PATCH_LEVEL);
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
  if (wants_compiler && !compiler().why_none.empty()) words += "; " + compiler().why_none;
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

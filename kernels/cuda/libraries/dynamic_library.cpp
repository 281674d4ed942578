// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/dynamic_library.h"

#include <dlfcn.h>

#include "core/base/error.h"

namespace lockstep::cuda {
namespace {

std::string last_error() {
  const char* text = dlerror();
  return text ? text : "unknown error";
}

std::string hint_for(const LibraryName& name) {
  return fmt::format(
      "{}, or add the folder that holds {} to LD_LIBRARY_PATH", name.how_to_install, name.file);
}

}  // namespace

DynamicLibrary::DynamicLibrary(const LibraryName& name) : name_(name) {
  library_ = dlopen(name.file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ != nullptr) return;
  const std::string reason = last_error();
  for (const char* folder : {LOCKSTEP_CUDA_LIBRARY_FOLDER, LOCKSTEP_CUPTI_LIBRARY_FOLDER}) {
    const std::string in_toolkit = fmt::format("{}/{}", folder, name.file);
    library_ = dlopen(in_toolkit.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ != nullptr) return;
  }
  throw EnvironmentError(
      fmt::format("{} (built against {}) cannot be opened: {}", name.file, name.version, reason),
      hint_for(name));
}

void* DynamicLibrary::address_of(const char* name) const {
  if (void* address = dlsym(library_, name)) return address;
  throw EnvironmentError(
      fmt::format("{} (built against {}) lacks a function: {}", name_.file, name_.version, name),
      hint_for(name_));
}

void check_version(const LibraryName& name, LibraryVersion found, LibraryVersion built) {
  if (found.major == built.major && found.minor >= built.minor) return;
  throw EnvironmentError(fmt::format("{} is version {}.{}, but {} was built against",
                                     name.file,
                                     found.major,
                                     found.minor,
                                     name.version),
                         hint_for(name));
}

}  // namespace lockstep::cuda

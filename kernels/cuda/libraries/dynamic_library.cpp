// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/dynamic_library.h"

#include <dlfcn.h>
#include <filesystem>
#include <link.h>
#include <system_error>

#include "core/base/error.h"

namespace lockstep::cuda {
namespace {

std::string last_error() {
  const char* text = dlerror();
  return text ? text : "unknown error";
}

/// The file of an open library, links followed.
std::string file_of(void* library) {
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return {};
  std::error_code none;
  const std::filesystem::path file = std::filesystem::canonical(map->l_name, none);
  return file.empty() ? map->l_name : file.string();
}

std::string hint_for(const LibraryName& name) {
  return fmt::format(
      "{}; or name the folder that holds {} in LOCKSTEP_CUDA_PATH or LD_LIBRARY_PATH",
      name.how_to_install,
      name.file);
}

}  // namespace

DynamicLibrary::DynamicLibrary(const LibraryName& name, const LibraryPlaces& places) : name_(name) {
  std::string linker, refused;
  for (const std::string& candidate : library_candidates(name.file, places)) {
    void* const library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      // The linker finds nothing where it looks: not worth a word if something else is refused.
      if (candidate == name.file)
        linker = last_error();
      else
        refused += fmt::format("; {} cannot be opened: {}", candidate, last_error());
      continue;
    }
    const std::string why = name.refuse ? name.refuse(library) : std::string();
    if (why.empty()) {
      library_ = library;
      return;
    }
    refused += fmt::format("; {} {}", file_of(library), why);
    dlclose(library);
  }
  if (!refused.empty())
    throw EnvironmentError(fmt::format("{} (built against {}): none that will do is found{}",
                                       name.file,
                                       name.version,
                                       refused),
                           hint_for(name));
  throw EnvironmentError(
      fmt::format("{} (built against {}) cannot be opened: {}", name.file, name.version, linker),
      hint_for(name));
}

void* DynamicLibrary::address_of(const char* name) const {
  if (void* address = dlsym(library_, name)) return address;
  throw EnvironmentError(
      fmt::format("{} (built against {}) lacks a function: {}", name_.file, name_.version, name),
      hint_for(name_));
}

std::string DynamicLibrary::path() const { return file_of(library_); }

std::string why_unfit(LibraryVersion found, LibraryVersion built) {
  if (found.major == built.major && found.minor >= built.minor) return {};
  return fmt::format("is version {}.{}, and {}.{} or later of {} is wanted",
                     found.major,
                     found.minor,
                     built.major,
                     built.minor,
                     built.major);
}

void* address_in(void* library, const char* name) { return dlsym(library, name); }

}  // namespace lockstep::cuda

// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/dynamic_library.h"

#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>
#include <link.h>
#include <set>
#include <system_error>

#include "lockstep/error.h"

namespace lockstep::cuda {
namespace {

std::string last_error() {
  const char* text = dlerror();
  return text ? text : "unknown error";
}

/// Links followed, where there is such a file.
std::string real_path(const std::string& path) {
  std::error_code none;
  const std::filesystem::path file = std::filesystem::canonical(path, none);
  return file.empty() ? path : file.string();
}

/// The file of an open library, links followed.
std::string file_of(void* library) {
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return {};
  return real_path(map->l_name);
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
  std::set<std::string> seen;
  const auto refuse = [&](const std::string& file, const std::string& why) {
    if (seen.insert(file).second) refused += fmt::format("; {} {}", file, why);
  };
  const auto refusal_of_file = [&](const std::string& file) {
    return name.refuse_file ? name.refuse_file(file) : std::string();
  };
  for (const std::string& candidate : library_candidates(name.file, places)) {
    // What the linker looks for is known when it has been found.
    const bool is_path = candidate.find('/') != std::string::npos;
    const std::string real = is_path ? real_path(candidate) : std::string();
    if (seen.contains(real)) continue;
    std::string why = is_path ? refusal_of_file(real) : std::string();
    if (!why.empty()) {
      refuse(real, why);
      continue;
    }
    void* const library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      if (is_path)
        refuse(real, "cannot be opened: " + last_error());
      else
        linker = last_error();  // not worth a word if something else is refused
      continue;
    }
    const std::string file = file_of(library);
    if (!is_path) why = refusal_of_file(file);
    const bool is_asked = why.empty() && name.refuse;
    if (is_asked) why = name.refuse(library);
    if (why.empty()) {
      library_ = library;
      return;
    }
    refuse(file, why);
    const bool asked = is_asked && name.asked_once;
    dlclose(library);
    if (!asked) continue;
    refused += "; it had to be opened to see that, after which no other can be";
    break;
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

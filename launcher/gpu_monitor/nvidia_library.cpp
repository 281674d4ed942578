// SPDX-License-Identifier: Apache-2.0
#include "launcher/gpu_monitor/nvidia_library.h"

#include <dlfcn.h>
#include <filesystem>
#include <link.h>
#include <string>
#include <system_error>

namespace lockstep {

NvidiaLibrary::NvidiaLibrary(const std::string& folder, const std::string& file) {
  const std::string path = folder.empty() ? file : folder + "/" + file;
  handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ != nullptr) return;
  const char* const words = dlerror();
  error_ = words != nullptr ? words : "unknown error";
  // Of a library that this one needs the linker says the same words after another name.
  missing_ = error_.starts_with(path + ": ") && error_.find("No such file") != std::string::npos;
}

std::string NvidiaLibrary::path() const {
  link_map* map = nullptr;
  if (!opened() || dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return {};
  std::error_code none;
  return std::filesystem::canonical(map->l_name, none).string();
}

void* NvidiaLibrary::address_of(const char* name) const {
  return opened() ? dlsym(handle_, name) : nullptr;
}

}  // namespace lockstep

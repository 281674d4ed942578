// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep::cuda {

/// A library as it is looked for and, where it is missing, named.
struct LibraryName {
  std::string file;            ///< "libcudnn.so.9"
  std::string version;         ///< that was built against, "9.19.0"
  std::string how_to_install;  ///< "install cuDNN 9 for CUDA 13"
};

/// A shared library that is opened when it is first needed, so that the program starts where there
/// is none. Looked for as the dynamic linker does, then in the folders of the toolkit that was
/// built with. Stays open until the process ends: these libraries own threads and exit handlers.
class DynamicLibrary {
 public:
  /// Throws EnvironmentError: file, wanted version, the linker's words, remedy.
  explicit DynamicLibrary(const LibraryName& name);

  /// Sets `function` to the function `name`. Throws EnvironmentError where the library lacks it.
  template <typename Function>
  void find(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(address_of(name));
  }
  const LibraryName& name() const { return name_; }

 private:
  void* address_of(const char* name) const;

  LibraryName name_;
  void* library_ = nullptr;
};

struct LibraryVersion {
  int major = 0, minor = 0;
};

/// Throws EnvironmentError unless `found` is of the major version that was built against, and no
/// older.
void check_version(const LibraryName& name, LibraryVersion found, LibraryVersion built);

}  // namespace lockstep::cuda

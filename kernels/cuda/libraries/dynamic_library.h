// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "kernels/cuda/libraries/library_places.h"

namespace lockstep::cuda {

/// A library as it is looked for and, where it is missing, named.
struct LibraryName {
  std::string file;            ///< "libcudnn.so.9"
  std::string version;         ///< that was built against, "9.19.0"
  std::string how_to_install;  ///< "pip install nvidia-cudnn-cu13, or ..."
  /// Says what the file is, "is version 9.1, and 9.19 or later of 9 is wanted", where its name or
  /// what lies next to it shows that it will not do; nothing where it may. May be empty.
  std::function<std::string(const std::string& file)> refuse_file = {};
  /// The same of the opened library (of dlopen), by asking it. May be empty: any will do.
  std::function<std::string(void* library)> refuse = {};
  /// Once one was asked, no other can be tried in this process.
  bool asked_once = false;
};

/// A shared library that is opened when it is first needed, so that the program starts where there
/// is none. Looked for as Note [Where NVIDIA's libraries are looked for] says. Stays open until the
/// process ends: these libraries own threads and exit handlers.
class DynamicLibrary {
 public:
  /// Throws EnvironmentError: file, what was found, wanted version, the linker's words, remedy.
  explicit DynamicLibrary(const LibraryName& name, const LibraryPlaces& places = library_places());

  /// Sets `function` to the function `name`. Throws EnvironmentError where the library lacks it.
  template <typename Function>
  void find(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(address_of(name));
  }
  const LibraryName& name() const { return name_; }
  /// The file that was opened, links followed.
  std::string path() const;

 private:
  void* address_of(const char* name) const;

  LibraryName name_;
  void* library_ = nullptr;
};

struct LibraryVersion {
  int major = 0, minor = 0;
};

/// "is version 9.1, and 9.19 or later of 9 is wanted" unless `found` is of the major version that
/// was built against, and no older; empty where it is.
std::string why_unfit(LibraryVersion found, LibraryVersion built);

/// The address of `name` in a library of dlopen; null where it has none.
void* address_in(void* library, const char* name);
template <typename Function>
Function* function_of(void* library, const char* name) {
  return reinterpret_cast<Function*>(address_in(library, name));
}

}  // namespace lockstep::cuda

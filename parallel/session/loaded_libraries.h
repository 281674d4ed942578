// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// A shared library in this process.
struct LoadedLibrary {
  std::string name;     ///< as the dynamic linker calls it, without folders: "libdnnl.so.2"
  std::string file;     ///< links followed: "/usr/lib/x86_64-linux-gnu/libdnnl.so.2.6"
  std::string version;  ///< what its own function says; empty: it has none that we know
};

/// All of them, the dynamic linker among them, in the order of their names. Initializes none.
std::vector<LoadedLibrary> loaded_libraries();

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

// Note [Where NVIDIA's libraries are looked for]
//
// In this order, which docs/gpu.md documents and cmake/LockstepCudaPlaces.cmake keeps for headers:
//   1. the folders of LOCKSTEP_CUDA_PATH: toolkits, folders of Python packages or of libraries
//   2. where the dynamic linker looks, LD_LIBRARY_PATH first; then the toolkit of the build
//   3. Python environments: VIRTUAL_ENV, CONDA_PREFIX, and that of the first python3 on PATH
//   4. next to the headers of the build
// A file that is there and will not do (another CUDA, too old, broken) is skipped and named if
// none is left.
namespace lockstep::cuda {

/// What decides where a library is looked for. Lists are in order; an empty text: not set.
struct LibraryPlaces {
  std::vector<std::string> chosen;   ///< folders of LOCKSTEP_CUDA_PATH
  std::vector<std::string> toolkit;  ///< of the build: folders of libraries
  std::vector<std::string> beside;   ///< the headers of the build: folders of libraries
  std::string virtual_env, conda_prefix;
  std::string path, home;  ///< PATH and HOME
  std::string root;        ///< before /usr and /usr/local of Debian's python3, for tests
};

/// Those of this process and this build.
LibraryPlaces library_places();

/// What to hand to dlopen for the library `file` ("libcudnn.so.9"), in order: paths of files that
/// exist, each once, and between them `file` itself, for the dynamic linker. A name with a slash
/// is tried alone.
std::vector<std::string> library_candidates(const std::string& file, const LibraryPlaces& places);

/// The folders of Python packages of place 3 that exist, in order.
std::vector<std::string> site_packages(const LibraryPlaces& places);

}  // namespace lockstep::cuda

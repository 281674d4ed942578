// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// What of CUDA is in this program, whatever the machine has.
struct CudaFacts {
  std::string absent_because;      ///< the backend is not built in; empty: it is
  int runtime_version = 0;         ///< CUDA 13.0 as 13000
  std::vector<int> architectures;  ///< that kernels are compiled for, 9.0 as 90, ascending
};
CudaFacts cuda_build();

/// A library that a process opens, as it is found on this machine.
struct CudaLibrary {
  std::string name;            ///< "cuDNN"
  std::string version;         ///< "9.19.0"; empty: it is not said
  std::string file;            ///< links followed; empty: none that will do is found
  std::string absent_because;  ///< then: what was found and wanted
  std::string hint;            ///< then: what to do
};

/// What the backend computes with.
struct CudaLibraries {
  std::string versions;                 ///< "CUDA 13.0, cuBLASLt 13.1.0, cuDNN 9.19.0"
  std::string no_compiler_because;      ///< NVRTC is not found, for cuDNN; empty: it is
  std::vector<CudaLibrary> files = {};  ///< cuBLASLt, cuDNN, NVRTC, CUPTI (built with its header)
};
/// Opens them. Throws EnvironmentError: cuBLASLt or cuDNN is missing, or of another version than
/// was built against; the backend is not built in.
CudaLibraries cuda_libraries();

namespace cuda {
/// As CudaFacts's; the compiler knows them where it compiles device code.
std::vector<int> built_architectures();
}  // namespace cuda

}  // namespace lockstep

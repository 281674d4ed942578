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

/// What the backend computes with, as it is found on this machine.
struct CudaLibraries {
  std::string versions;             ///< "CUDA 13.0, cuBLASLt 13.1.0, cuDNN 9.19.0"
  std::string no_compiler_because;  ///< NVRTC is not found, for cuDNN; empty: it is
};
/// Opens them. Throws EnvironmentError: one is missing, or of another version than was built
/// against; the backend is not built in.
CudaLibraries cuda_libraries();

namespace cuda {
/// As CudaFacts's; the compiler knows them where it compiles device code.
std::vector<int> built_architectures();
}  // namespace cuda

}  // namespace lockstep

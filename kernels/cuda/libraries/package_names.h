// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <string>
#include <string_view>

namespace lockstep::cuda {

/// What to install for a library, by the Python index and by NVIDIA's repository for apt:
/// "pip install 'nvidia-cudnn-cu13>=9.19', or apt-get install cudnn9-cuda-13 (NVIDIA's
/// repository)". `stem`: of the Python package, "cudnn"; those of CUDA 12 end in -cu12, and later
/// ones do where the library is not a part of the toolkit. `version`: empty means any.
inline std::string how_to_install(std::string_view stem,
                                  int cuda_major,
                                  std::string_view version,
                                  std::string_view apt) {
  const bool of_toolkit = stem != "cudnn" && stem != "nccl";
  const std::string end =
      cuda_major < 13 || !of_toolkit ? fmt::format("-cu{}", cuda_major) : std::string();
  const std::string package = version.empty()
                                  ? fmt::format("nvidia-{}{}", stem, end)
                                  : fmt::format("'nvidia-{}{}>={}'", stem, end, version);
  return fmt::format("pip install {}, or apt-get install {} (NVIDIA's repository)", package, apt);
}

}  // namespace lockstep::cuda

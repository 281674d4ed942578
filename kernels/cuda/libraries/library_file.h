// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "kernels/cuda/libraries/dynamic_library.h"

/// What the name of a library's file and the files next to it say of its version, without opening
/// it.
namespace lockstep::cuda {

/// The number that `name` is defined as in `header` ("cudnn_version.h") of the folder include
/// next to the library's own folder; nothing where there is no such file or definition.
std::optional<int> defined_beside(const std::string& library,
                                  const std::string& header,
                                  const std::string& name);

/// Of ".so.9.19.0" at the end of the name: 9.19; nothing where there are not two numbers.
std::optional<LibraryVersion> version_in_name(const std::string& library);

/// The CUDA that the Python package around the library is made for: 12 where
/// nvidia_cudnn_cu12-9.1.0.dist-info (`package` being "nvidia_cudnn") is next to its folder nvidia.
std::optional<int> cuda_of_package(const std::string& library, const std::string& package);

}  // namespace lockstep::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launcher/doctor/environment.h"
#include "launcher/doctor/gpu_facts.h"

/// What NVIDIA's driver and its management library (NVML) say of the GPUs, both opened while the
/// program runs, so that this works in programs without the CUDA backend, and where the driver is
/// broken.
namespace lockstep::doctor {

/// Opens the libraries and asks; makes no context on a GPU.
GpuFacts read_gpus(const Environment& environment);

/// "13.0" of 13000.
std::string cuda_version_text(int version);
/// "9.0" of 90.
std::string capability_text(int capability);

}  // namespace lockstep::doctor

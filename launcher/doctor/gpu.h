// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/doctor/finding.h"
#include "launcher/doctor/nvidia.h"

/// Checks of the GPUs. All are pure but for what `environment` measures.
namespace lockstep::doctor {

/// Whether NVIDIA's driver is there, whole, and of one version.
Finding check_driver(const Environment& environment, const GpuFacts& facts);
/// Whether the driver is new enough for the CUDA that this program was built with.
Finding check_runtime(const Environment& environment, const GpuFacts& facts);
/// Whether the libraries that convolutions and products run are there, and what they compile with.
Finding check_libraries(const Environment& environment, const GpuFacts& facts);
/// How many GPUs CUDA shows to this process, and what hides the others.
Finding check_devices(const Environment& environment, const GpuFacts& facts);
/// Whether this program holds code for these GPUs.
Finding check_architecture(const Environment& environment, const GpuFacts& facts);
/// What the GPUs are, and what they reach of it.
Finding check_gpu_speed(const Environment& environment, const GpuFacts& facts);
/// What other processes hold of the GPUs' memory.
Finding check_gpu_memory(const Environment& environment, const GpuFacts& facts);
Finding check_ecc(const Environment& environment, const GpuFacts& facts);
Finding check_clocks(const Environment& environment, const GpuFacts& facts);
/// NVLink and PCIe.
Finding check_topology(const Environment& environment, const GpuFacts& facts);
/// Whether the GPUs of this host read each other's memory.
Finding check_peers(const Environment& environment, const GpuFacts& facts);
/// Whether ranks of this host's GPUs can exchange gradients through NCCL.
Finding check_nccl(const Environment& environment, const GpuFacts& facts);

/// The GPUs that this rank would work on: under a launcher its own, otherwise all.
std::vector<Gpu> own_gpus(const Environment& environment, const GpuFacts& facts);

}  // namespace lockstep::doctor

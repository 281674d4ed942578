// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Numbers and layouts of the ABIs of libcuda.so.1 and libnvidia-ml.so.1, whose headers are not
/// needed to build this. tests/doctor/nvidia_abi.cpp compares them with the toolkit's.
namespace lockstep::doctor {

/// CUresult and nvmlReturn_t that checks tell apart.
inline constexpr int kCudaNoDevice = 100, kCudaInvalidDevice = 101, kCudaStubLibrary = 34,
                     kCudaSystemNotReady = 802, kCudaDriverMismatch = 803;
inline constexpr int kNvmlNotSupported = 3, kNvmlVersionMismatch = 18;

/// CUdevice_attribute.
inline constexpr int kCapabilityMajor = 75, kCapabilityMinor = 76;

/// Why clocks are low, nvmlClocksEventReason*.
inline constexpr unsigned long long kHardwareSlowdown = 0x8, kSoftwareThermal = 0x20,
                                    kHardwareThermal = 0x40, kPowerBrake = 0x80;

inline constexpr int kUncorrected = 1, kSinceStart = 0;  // nvmlMemoryErrorType_t, CounterType_t
inline constexpr int kProhibited = 2;                    // nvmlComputeMode_t
inline constexpr int kProcessorClock = 1;                // nvmlClockType_t
inline constexpr unsigned long long kNotSaid = ~0ull;    // NVML_VALUE_NOT_AVAILABLE

/// CUuuid
struct CudaId {
  unsigned char bytes[16] = {};
};

/// nvmlMemory_t
struct NvmlMemory {
  unsigned long long total = 0, free = 0, used = 0;
};

/// nvmlProcessInfo_t, what nvmlDeviceGetComputeRunningProcesses_v3 fills.
struct NvmlProcess {
  unsigned process = 0;
  unsigned long long bytes = 0;
  unsigned gpu_instance = 0, compute_instance = 0;
};

}  // namespace lockstep::doctor

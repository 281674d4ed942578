// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Numbers and layouts of the ABIs of libcuda.so.1 and libnvidia-ml.so.1, whose headers are not
/// needed to build this. tests/doctor/nvidia_abi.cpp compares them with the toolkit's.
namespace lockstep::nvidia {

/// CUresult and nvmlReturn_t that checks tell apart.
inline constexpr int kCudaNoDevice = 100, kCudaInvalidDevice = 101, kCudaStubLibrary = 34,
                     kCudaSystemNotReady = 802, kCudaDriverMismatch = 803;
inline constexpr int kNvmlNotSupported = 3, kNvmlVersionMismatch = 18;

/// CUdevice_attribute.
inline constexpr int kCapabilityMajor = 75, kCapabilityMinor = 76;

/// Why clocks are low, nvmlClocksEventReason*.
inline constexpr unsigned long long kIdle = 0x1, kApplicationClocks = 0x2, kPowerLimit = 0x4,
                                    kHardwareSlowdown = 0x8, kSyncBoost = 0x10,
                                    kSoftwareThermal = 0x20, kHardwareThermal = 0x40,
                                    kPowerBrake = 0x80, kDisplayClocks = 0x100;

inline constexpr int kUncorrected = 1, kSinceStart = 0;      // nvmlMemoryErrorType_t, CounterType_t
inline constexpr int kProhibited = 2;                        // nvmlComputeMode_t
inline constexpr int kProcessorClock = 1, kMemoryClock = 2;  // nvmlClockType_t
inline constexpr int kDieTemperature = 0;                    // nvmlTemperatureSensors_t
inline constexpr unsigned kPartsEnabled = 1;                 // NVML_DEVICE_MIG_ENABLE
inline constexpr unsigned long long kNotSaid = ~0ull;        // NVML_VALUE_NOT_AVAILABLE

/// CUuuid
struct CudaId {
  unsigned char bytes[16] = {};
};

/// nvmlMemory_t
struct NvmlMemory {
  unsigned long long total = 0, free = 0, used = 0;
};

/// nvmlMemory_v2_t. Whether `used` holds what is `reserved` depends on the driver; the rest,
/// total - free - reserved, does not.
struct NvmlMemory2 {
  unsigned version = 0;  ///< kNvmlMemory2
  unsigned long long total = 0, reserved = 0, free = 0, used = 0;
};
inline constexpr unsigned kNvmlMemory2 = unsigned(sizeof(NvmlMemory2)) | (2u << 24);

/// nvmlUtilization_t, percent of the last sixth of a second to second.
struct NvmlUtilization {
  unsigned gpu = 0;     ///< in which some kernel ran
  unsigned memory = 0;  ///< in which some of its memory was read or written
};

/// nvmlProcessInfo_t, what nvmlDeviceGetComputeRunningProcesses_v3 fills.
struct NvmlProcess {
  unsigned process = 0;
  unsigned long long bytes = 0;
  unsigned gpu_instance = 0, compute_instance = 0;
};

}  // namespace lockstep::nvidia

// SPDX-License-Identifier: Apache-2.0
// Compiled where the toolkit's headers are, and nothing more: what Lockstep and the faked
// libraries take the ABIs of libcuda.so.1 and libnvidia-ml.so.1 to be, against the real ones.
#include "launcher/gpu_monitor/nvidia_abi.h"

#include <cstddef>
#include <cuda.h>
#if __has_include(<nvml.h>)
#include <nvml.h>
#endif

namespace lockstep::nvidia {

static_assert(CUDA_ERROR_NO_DEVICE == kCudaNoDevice);
static_assert(CUDA_ERROR_INVALID_DEVICE == kCudaInvalidDevice);
static_assert(CUDA_ERROR_STUB_LIBRARY == kCudaStubLibrary);
static_assert(CUDA_ERROR_SYSTEM_NOT_READY == kCudaSystemNotReady);
static_assert(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH == kCudaDriverMismatch);
static_assert(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR == kCapabilityMajor);
static_assert(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR == kCapabilityMinor);
static_assert(sizeof(CUuuid) == sizeof(CudaId));
static_assert(sizeof(CUdevice) == sizeof(int) && sizeof(CUresult) == sizeof(int));

#if __has_include(<nvml.h>)
static_assert(NVML_ERROR_NOT_SUPPORTED == kNvmlNotSupported);
static_assert(NVML_ERROR_LIB_RM_VERSION_MISMATCH == kNvmlVersionMismatch);
static_assert(nvmlClocksThrottleReasonGpuIdle == kIdle);
static_assert(nvmlClocksThrottleReasonApplicationsClocksSetting == kApplicationClocks);
static_assert(nvmlClocksThrottleReasonSwPowerCap == kPowerLimit);
static_assert(nvmlClocksThrottleReasonSyncBoost == kSyncBoost);
static_assert(nvmlClocksThrottleReasonDisplayClockSetting == kDisplayClocks);
static_assert(nvmlClocksThrottleReasonHwSlowdown == kHardwareSlowdown);
static_assert(nvmlClocksThrottleReasonSwThermalSlowdown == kSoftwareThermal);
static_assert(nvmlClocksThrottleReasonHwThermalSlowdown == kHardwareThermal);
static_assert(nvmlClocksThrottleReasonHwPowerBrakeSlowdown == kPowerBrake);
static_assert(NVML_MEMORY_ERROR_TYPE_UNCORRECTED == kUncorrected);
static_assert(NVML_VOLATILE_ECC == kSinceStart);
static_assert(NVML_COMPUTEMODE_PROHIBITED == kProhibited);
static_assert(NVML_CLOCK_SM == kProcessorClock);
static_assert(NVML_CLOCK_MEM == kMemoryClock);
static_assert(NVML_TEMPERATURE_GPU == kDieTemperature);
static_assert(NVML_DEVICE_MIG_ENABLE == kPartsEnabled);
static_assert(sizeof(nvmlMemory_t) == sizeof(NvmlMemory));
static_assert(offsetof(nvmlMemory_t, total) == offsetof(NvmlMemory, total));
static_assert(offsetof(nvmlMemory_t, free) == offsetof(NvmlMemory, free));
static_assert(offsetof(nvmlMemory_t, used) == offsetof(NvmlMemory, used));
static_assert(nvmlMemory_v2 == kNvmlMemory2);
static_assert(sizeof(nvmlMemory_v2_t) == sizeof(NvmlMemory2));
static_assert(offsetof(nvmlMemory_v2_t, version) == offsetof(NvmlMemory2, version));
static_assert(offsetof(nvmlMemory_v2_t, total) == offsetof(NvmlMemory2, total));
static_assert(offsetof(nvmlMemory_v2_t, reserved) == offsetof(NvmlMemory2, reserved));
static_assert(offsetof(nvmlMemory_v2_t, free) == offsetof(NvmlMemory2, free));
static_assert(offsetof(nvmlMemory_v2_t, used) == offsetof(NvmlMemory2, used));
static_assert(sizeof(nvmlUtilization_t) == sizeof(NvmlUtilization));
static_assert(offsetof(nvmlUtilization_t, gpu) == offsetof(NvmlUtilization, gpu));
static_assert(offsetof(nvmlUtilization_t, memory) == offsetof(NvmlUtilization, memory));
static_assert(sizeof(nvmlProcessInfo_t) == sizeof(NvmlProcess));
static_assert(offsetof(nvmlProcessInfo_t, pid) == offsetof(NvmlProcess, process));
static_assert(offsetof(nvmlProcessInfo_t, usedGpuMemory) == offsetof(NvmlProcess, bytes));
static_assert(offsetof(nvmlProcessInfo_t, gpuInstanceId) == offsetof(NvmlProcess, gpu_instance));
static_assert(sizeof(nvmlDevice_t) == sizeof(void*) && sizeof(nvmlReturn_t) == sizeof(int));
#endif

}  // namespace lockstep::nvidia

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launcher/gpu_monitor/nvidia_abi.h"
#include "launcher/gpu_monitor/nvidia_library.h"
#include "parallel/monitor/gpu_use.h"

namespace lockstep {

/// Asks NVML, the driver's management library, how one GPU is used. Any call may hang where the
/// driver does. Meanings of the answers: NVML API Reference Guide, "Device Queries",
/// nvmlUtilization_t, nvmlMemory_v2_t, nvmlClocksEventReasons.
class GpuSampler {
 public:
  /// `library_folder` holds libnvidia-ml.so.1; empty: the dynamic linker looks for it. `address` on
  /// the PCI bus, "0000:1b:00.0".
  GpuSampler(const std::string& library_folder, const std::string& address);
  ~GpuSampler();
  GpuSampler(const GpuSampler&) = delete;
  GpuSampler& operator=(const GpuSampler&) = delete;

  /// Why nothing can be asked; empty: it can.
  const std::string& not_watched() const { return not_watched_; }
  /// The GPU is cut into MIG parts, of which a process has one: NVML says no shares then, and the
  /// memory of all parts together.
  bool part() const { return part_; }
  /// Of the start: memory in all, power limit, highest clocks.
  const GpuValues& limits() const { return limits_; }
  /// What is not said now is skipped. Allocates nothing.
  GpuSample sample() const;

 private:
  using Device = void*;
  template <typename... Answers>
  using Query = int(Device, Answers*...);
  using ClockQuery = int(Device, int, unsigned*);

  bool open(const std::string& address);
  void find_functions();
  void read_limits();
  bool read_memory(double& used, double& total) const;

  NvidiaLibrary library_;
  std::string not_watched_;
  bool started_ = false, part_ = false;
  Device device_ = nullptr;
  GpuValues limits_;
  Query<nvidia::NvmlUtilization>* utilization_ = nullptr;
  Query<nvidia::NvmlMemory>* memory_ = nullptr;
  Query<nvidia::NvmlMemory2>* memory2_ = nullptr;
  Query<unsigned>* power_ = nullptr;
  ClockQuery *clock_ = nullptr, *temperature_ = nullptr;
  Query<unsigned long long>* reasons_ = nullptr;
};

}  // namespace lockstep

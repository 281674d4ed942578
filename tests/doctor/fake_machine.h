// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "launcher/doctor/environment.h"
#include "launcher/doctor/examine.h"

namespace lockstep::doctor {

/// A machine faked in a temporary folder: two H100s that are well, with their driver's libraries,
/// device files and kernel's files; MPI's programs; eight cores on two NUMA nodes. Tests break it
/// and mend it as the doctor says.
class FakeMachine {
 public:
  FakeMachine();
  ~FakeMachine();
  FakeMachine(const FakeMachine&) = delete;
  FakeMachine& operator=(const FakeMachine&) = delete;

  /// A file of the folder.
  void write(const std::string& path, const std::string& text) const;
  void remove(const std::string& path) const;
  void move(const std::string& from, const std::string& to) const;
  void make_tool(const std::string& name, const std::string& script) const;
  /// An environment variable, as the doctor and the libraries see it.
  void set(const std::string& name, const std::string& value);
  void unset(const std::string& name);
  /// A line of gpus.conf, "gpu0.ecc"; an empty value takes it out.
  void set_gpu(const std::string& name, const std::string& value);
  /// Permissions of a device file.
  void open_to_all(const std::string& path, bool open) const;
  /// Takes libraries, device files and the kernel's driver away.
  void remove_driver() const;
  void remove_gpus() const;
  void install_driver();

  /// The line on `subject`, of a whole examination.
  Finding find(const std::string& subject) const;
  Findings examine() const;

  Environment environment;
  Space shared_memory{.bytes = 64ull << 30, .free = 64ull << 30};
  Space disk{.bytes = 1000ull << 30, .free = 500ull << 30};
  WriteTrial trial{.error = 0, .fsync_s = 0.004};
  DevicePeaks gpu_peaks{.fp32_flops = 50e12, .bf16_flops = 680e12, .bytes = 2.9e12};
  CudaLibraries libraries{.versions = "CUDA 13.0, cuBLASLt 13.1.0, cuDNN 9.19.0",
                          .no_compiler_because = ""};  ///< without versions: not found
  std::vector<TcpSocket> sockets;                      ///< of the rank
  std::string nccl = "2.28.9";  ///< its version; "none": not built in, empty: cannot be opened
  std::vector<int> threads{0, 1, 2, 3, 4, 5, 6, 7};  ///< that the process may use
  DevicePeaks cpu_peaks{.fp32_flops = 110e9, .bf16_flops = 215e9, .bytes = 20e9};

 private:
  std::filesystem::path folder_;
  std::map<std::string, std::string> gpus_;
};

}  // namespace lockstep::doctor

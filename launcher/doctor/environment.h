// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/env.h"
#include "core/exec/backend.h"
#include "core/host/tcp_sockets.h"
#include "kernels/cuda/device/cuda_build.h"
#include "launcher/doctor/watch.h"
#include "launcher/processes/program_output.h"

namespace lockstep::doctor {

/// Room on the file system of a folder.
struct Space {
  std::uint64_t bytes = 0;  ///< of all
  std::uint64_t free = 0;   ///< for this user
  std::uint64_t free_files = 1;
};

/// What came of writing a small file and waiting until the disk has it.
struct WriteTrial {
  int error = 0;  ///< errno; 0: written
  double fsync_s = 0;
};

struct ToolResult : ProgramOutput {
  bool found = false;  ///< on PATH
};

/// What this program was built with.
struct CudaBuild {
  std::string absent_because;      ///< the CUDA backend is not built in; empty: it is
  int runtime_version = 0;         ///< 13000 for CUDA 13.0; 0: unknown
  std::vector<int> architectures;  ///< compute capability 9.0 as 90, ascending; empty: unknown
};

/// Everything that checks see of the machine, so that tests can fake another one: files below a
/// folder, programs and libraries in it, and answers of the kernel that files cannot fake.
struct Environment {
  std::string root;             ///< before /proc, /sys, /dev and /run; empty: the machine itself
  std::string library_folder;   ///< where libcuda.so.1 is; empty: where the dynamic linker looks
  VariableMap variables;        ///< of this process
  std::string program;          ///< path of this program
  std::string out = "runs";     ///< the folder for results
  std::string device = "auto";  ///< that a run would ask for: auto, cpu or cuda
  int ranks = 1;                ///< of the job
  int ranks_here = 1;           ///< on this host
  int cores_here = 0;           ///< of all ranks of this host together; 0: this process's
  int gpus_here = 0;            ///< that ranks of this host see together; 0: not known
  int local_rank = -1;          ///< under a launcher the place among those; otherwise -1
  bool mpi_runs = false;        ///< MPI connects the ranks already
  bool is_root = false;
  bool has_onednn = true;  ///< built in
  CudaBuild build;
  std::shared_ptr<Watch> watch;  ///< notified of each check; may be empty

  /// errno of opening a device file to read and write; 0: it can be used.
  std::function<int(const std::string& path)> open_device;
  std::function<std::optional<Space>(const std::string& path)> space;
  std::function<WriteTrial(const std::string& folder)> write_trial;
  /// Hardware threads that this process may use, ascending.
  std::function<std::vector<int>()> allowed_threads;
  /// Of this process.
  std::function<std::vector<TcpSocket>()> tcp_sockets;
  std::function<std::vector<NetworkInterface>()> interfaces;
  /// Of one core of the processor and of the visible GPU `ordinal`. Empty: not to be measured.
  /// They may throw Error.
  std::function<DevicePeaks()> measure_cpu;
  std::function<DevicePeaks(int ordinal)> measure_gpu;
  /// Opens cuBLASLt, cuDNN, NVRTC and CUPTI; may throw Error. Empty: built without them.
  std::function<CudaLibraries()> cuda_libraries;
  /// Opens NCCL; an empty text where this program was built without it.
  std::function<std::string()> nccl_version;
  /// The file that it is taken from.
  std::function<std::string()> nccl_file;

  /// The file's text; empty where it cannot be read.
  std::string read(const std::string& path) const;
  /// Without line ends around it.
  std::string read_line(const std::string& path) const;
  bool exists(const std::string& path) const;
  /// Names in a folder, sorted; none where it is not there.
  std::vector<std::string> list(const std::string& path) const;
  /// Empty where it is not set.
  std::string variable(const std::string& name) const;
  bool has(const std::string& name) const { return variables.contains(name); }
  /// To the watch, where there is one.
  void begin(const std::string& subject) const;
  void found(const Finding& finding) const;
  /// Runs a program of PATH, at most `seconds`; its group is killed then.
  ToolResult run_tool(const std::vector<std::string>& command, double seconds) const;
};

/// The machine as it is.
Environment this_machine();

/// What a process runs in, and how a container of that kind is given GPUs; empty outside of one.
struct Container {
  std::string kind;
  std::string give_gpus;
  std::string shm_setting;
  std::string memlock_setting;
};
Container container_of(const Environment& environment);

/// "1.5 GiB"
std::string bytes_text(double bytes);

}  // namespace lockstep::doctor

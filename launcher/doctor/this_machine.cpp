// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <optional>
#include <string>
#include <sys/statvfs.h>
#include <unistd.h>
#include <vector>

#include "core/host/cores.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device/cuda_build.h"
#include "launcher/doctor/environment.h"
#include "launcher/processes/program_path.h"
#include "parallel/comm/nccl/nccl_communicator.h"

namespace lockstep::doctor {
namespace {

constexpr int kFsyncs = 3;
constexpr std::size_t kTrialBytes = std::size_t(1) << 20;

int open_error(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return errno;
  close(file);
  return 0;
}

std::optional<Space> space_of(const std::string& path) {
  struct statvfs facts {};
  if (statvfs(path.c_str(), &facts) != 0) return std::nullopt;
  Space space;
  space.bytes = std::uint64_t(facts.f_blocks) * facts.f_frsize;
  space.free = std::uint64_t(facts.f_bavail) * facts.f_frsize;
  // Some file systems count no files.
  space.free_files = facts.f_files == 0 ? 1 : std::uint64_t(facts.f_favail);
  return space;
}

/// errno of writing all of `bytes`; 0: done.
int write_all(int file, const std::vector<char>& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = write(file, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    done += std::size_t(count);
  }
  return 0;
}

/// The median of a few: the first one pays for what others have left to write.
WriteTrial write_small_file(const std::string& folder) {
  std::string name = folder + "/.lockstep-doctor-XXXXXX";
  const int file = mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) return {errno, 0};
  unlink(name.c_str());
  const std::vector<char> bytes(kTrialBytes, 'x');
  WriteTrial trial;
  std::vector<double> seconds;
  for (int i = 0; i < kFsyncs && trial.error == 0; ++i) {
    trial.error = write_all(file, bytes);
    const auto begin = std::chrono::steady_clock::now();
    if (trial.error == 0 && fsync(file) != 0) trial.error = errno;
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  close(file);
  std::ranges::sort(seconds);
  trial.fsync_s = seconds[seconds.size() / 2];
  return trial;
}

}  // namespace

Environment this_machine() {
  Environment machine;
  machine.variables = process_variables();
  machine.program = own_path();
  machine.is_root = geteuid() == 0;
  const CudaFacts cuda = cuda_build();
  machine.build = {cuda.absent_because, cuda.runtime_version, cuda.architectures};
  machine.open_device = open_error;
  machine.space = space_of;
  machine.write_trial = write_small_file;
  machine.allowed_threads = allowed_threads;
  machine.tcp_sockets = [] { return tcp_sockets("self"); };
  machine.interfaces = network_interfaces;
  machine.nccl_version = nccl_version;
  machine.nccl_file = nccl_file;
  machine.has_onednn = cpu_backend_has_onednn();
  machine.measure_cpu = [] { return make_cpu_backend()->measure_peaks(); };
  if (cuda.absent_because.empty()) {
    machine.cuda_libraries = cuda_libraries;
    machine.measure_gpu = [](int ordinal) { return make_cuda_backend(ordinal)->measure_peaks(); };
  }
  return machine;
}

}  // namespace lockstep::doctor

// SPDX-License-Identifier: Apache-2.0
// Broken hosts: the line says what is wrong, and what it advises makes it pass.
#include <cerrno>
#include <gtest/gtest.h>

#include "launcher/doctor/report.h"
#include "tests/doctor/expect.h"

namespace lockstep::doctor {
namespace {

using ::testing::HasSubstr;

std::string limits(const std::string& files, const std::string& locked) {
  return "Limit                     Soft Limit           Hard Limit           Units\n"
         "Max open files            " +
         files +
         " files\n"
         "Max locked memory         " +
         locked + " bytes\n";
}

TEST(DoctorHost, SmallSharedMemory) {
  FakeMachine machine;
  machine.shared_memory = {.bytes = 64ull << 20, .free = 64ull << 20};
  expect_line(machine, "/dev/shm", Verdict::warn, "too small", "mount -o remount,size=1G /dev/shm");
  machine.write("/.dockerenv", "");
  expect_line(machine, "/dev/shm", Verdict::warn, "64 MiB", "docker run --shm-size=1g");
  machine.shared_memory = {.bytes = 1ull << 30, .free = 1ull << 30};
  expect_pass(machine, "/dev/shm");
  machine.shared_memory.free = 1 << 20;
  expect_line(machine, "/dev/shm", Verdict::warn, "others have filled it", "rm -r");
}

TEST(DoctorHost, LittleLockedMemory) {
  FakeMachine machine;
  machine.write("/proc/self/limits", limits("20000 20000", "8388608 unlimited"));
  expect_pass(machine, "locked memory");  // nobody needs it
  machine.write("/sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
  expect_line(machine, "locked memory", Verdict::warn, "8 MiB", "ulimit -l unlimited");
  machine.write("/proc/self/limits", limits("20000 20000", "8388608 8388608"));
  expect_line(machine, "locked memory", Verdict::warn, "InfiniBand", "/etc/security/limits.conf");
  machine.write("/proc/self/limits", limits("20000 20000", "unlimited unlimited"));
  expect_pass(machine, "locked memory");
}

TEST(DoctorHost, FewOpenFiles) {
  FakeMachine machine;
  machine.write("/proc/self/limits", limits("256 4096", "unlimited unlimited"));
  expect_line(machine, "open files", Verdict::warn, "256 at a time", "ulimit -n 1024");
  machine.write("/proc/self/limits", limits("1024 4096", "unlimited unlimited"));
  expect_pass(machine, "open files");
  machine.environment.ranks = 1000;
  expect_line(machine, "open files", Verdict::warn, "1000 ranks may want 4256", "nofile 4256");
}

TEST(DoctorHost, OutputThatCannotBeWritten) {
  FakeMachine machine;
  machine.trial.error = EROFS;
  expect_line(machine,
              "storage",
              Verdict::fail,
              "--out /runs cannot be written: Read-only",
              "mount -o remount,rw");
  machine.trial.error = EACCES;
  expect_line(machine, "storage", Verdict::fail, "Permission denied", "chown");
  machine.trial.error = ENOSPC;
  expect_line(machine, "storage", Verdict::fail, "No space left", "make room");
  machine.trial.error = 0;
  expect_pass(machine, "storage");
}

TEST(DoctorHost, OutputThatIsFullOrSlow) {
  FakeMachine machine;
  machine.disk.free = 50ull << 20;
  expect_line(machine, "storage", Verdict::fail, "50 MiB free", "--out FOLDER");
  machine.disk.free = 5ull << 30;
  expect_line(machine, "storage", Verdict::warn, "5 GiB free", "--checkpoint-keep 1");
  machine.disk.free = 500ull << 30;
  machine.trial.fsync_s = 2;
  expect_line(machine, "storage", Verdict::warn, "2000.0 ms", "--checkpoint-every");
  machine.trial.fsync_s = 0.004;
  expect_pass(machine, "storage");
}

TEST(DoctorHost, MoreRanksThanCores) {
  FakeMachine machine;
  machine.environment.device = "cpu";
  machine.environment.ranks = machine.environment.ranks_here = 16;
  expect_line(machine, "cores", Verdict::warn, "8 cores for 16 ranks", "mpirun -np 8");
  machine.environment.ranks = machine.environment.ranks_here = 8;
  expect_pass(machine, "cores");
  machine.write("/sys/fs/cgroup/cpu.max", "200000 100000\n");  // a quota hides six of them
  expect_line(machine, "cores", Verdict::warn, "2 cores for 8 ranks", "--ranks 2");
  machine.environment.device = "auto";
  machine.environment.ranks = machine.environment.ranks_here = 4;
  expect_line(machine, "cores", Verdict::warn, "4 ranks share 2 GPUs", "mpirun -np 2");
}

TEST(DoctorHost, RanksThatWanderBetweenNumaNodes) {
  FakeMachine machine;
  expect_pass(machine, "affinity");  // nobody has started it: Lockstep's own mpirun binds
  machine.environment.ranks = machine.environment.ranks_here = 2;
  machine.environment.local_rank = 0;
  expect_line(machine, "affinity", Verdict::warn, "on 2 of 2 NUMA nodes", "--bind-to core");
  machine.write("/proc/self/status", "Cpus_allowed_list:\t2\n");
  expect_pass(machine, "affinity");
}

TEST(DoctorHost, MpiThatDoesNotStart) {
  FakeMachine machine;
  machine.make_tool("mpirun",
                    "echo; echo 'mpirun: error while loading shared libraries' >&2; exit 127");
  expect_line(machine, "MPI", Verdict::fail, "error while loading shared libraries", "openmpi-bin");
  machine.remove("/bin/mpirun");
  expect_line(machine, "MPI", Verdict::warn, "not in PATH", "apt install openmpi-bin");
  machine.make_tool("mpirun", "exit 0");
  expect_pass(machine, "MPI");
  machine.make_tool("ompi_info", "echo x:mpi_built_with_cuda_support:value:true");
  EXPECT_EQ(machine.find("CUDA-aware MPI").text, "yes");
}

TEST(DoctorHost, Processors) {
  FakeMachine machine;
  EXPECT_THAT(machine.find("processor").text, HasSubstr("AVX-512, bf16 (AVX-512)"));
  machine.cpu_peaks.fp32_flops = 30e9;
  machine.write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
  expect_line(machine,
              "processor",
              Verdict::warn,
              "fp32 30 GFLOP/s",
              "cpupower frequency-set -g performance");
  machine.cpu_peaks.fp32_flops = 110e9;
  expect_pass(machine, "processor");
  machine.cpu_peaks.bf16_flops = 90e9;
  expect_line(machine, "processor", Verdict::warn, "bf16 is slower", "ONEDNN_MAX_CPU_ISA");
  machine.write("/proc/cpuinfo", "model name\t: Old\nflags\t\t: fpu sse2 avx\n");
  expect_line(machine, "processor", Verdict::fail, "Old has no AVX2", "-cpu host");
}

TEST(DoctorHost, ThisMachineIsExamined) {
  Environment environment = this_machine();
  environment.device = "cpu";
  environment.program = "/bin/true";
  const Findings findings = examine(environment, {});
  ASSERT_FALSE(findings.empty());
  for (const Finding& finding : findings)
    EXPECT_TRUE(finding.verdict < Verdict::warn || !finding.remedy.empty()) << finding.subject;
}

}  // namespace
}  // namespace lockstep::doctor

// SPDX-License-Identifier: Apache-2.0
// Broken hosts: the line says what is wrong, and what it advises makes it pass.
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fmt/format.h>
#include <future>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <thread>

#include "core/host/cpu_list.h"
#include "launcher/doctor/place.h"
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
  expect_pass(machine, "locked memory");  // no rank needs it
  machine.write("/sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
  expect_line(machine, "locked memory", Verdict::warn, "8 MiB", "ulimit -l unlimited");
  machine.write("/proc/self/limits", limits("20000 20000", "8388608 8388608"));
  expect_line(machine, "locked memory", Verdict::warn, "InfiniBand", "/etc/security/limits.conf");
  machine.write("/proc/self/limits", limits("20000 20000", "unlimited unlimited"));
  expect_pass(machine, "locked memory");
}

TEST(DoctorHost, LimitsThatCannotBeRead) {
  FakeMachine machine;
  machine.remove("/proc/self/limits");
  EXPECT_EQ(machine.find("locked memory").verdict, Verdict::none);
  EXPECT_EQ(machine.find("open files").verdict, Verdict::none);
  machine.write("/proc/self/limits", limits("? ?", "unlimited unlimited"));
  expect_pass(machine, "locked memory");
  EXPECT_EQ(machine.find("open files").verdict, Verdict::none);
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
  expect_line(machine, "storage", Verdict::fail, "No space left", "free space there");
  machine.trial.error = 0;
  expect_pass(machine, "storage");
}

TEST(DoctorHost, OutputBelowAFile) {
  FakeMachine machine;
  machine.write("/file", "no folder");
  for (const char* out : {"/file", "/file/", "/file/runs/today"}) {
    machine.environment.out = out;
    expect_line(machine, "storage", Verdict::fail, "/file is not a folder", "--out FOLDER");
  }
  machine.remove("/file");
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
  expect_line(machine, "affinity", Verdict::warn, "on 2 of 2 NUMA nodes", "--bind-to numa");
  machine.threads = {2};
  expect_pass(machine, "affinity");
}

TEST(DoctorHost, MpiThatDoesNotStart) {
  FakeMachine machine;
  machine.make_tool("mpirun",
                    "echo; echo 'mpirun: error while loading shared libraries' >&2; exit 127");
  expect_line(machine, "MPI", Verdict::fail, "error while loading shared libraries", "openmpi-bin");
  machine.make_tool("mpirun", "echo '*****'; echo 'no slots are left' >&2; exit 1");
  expect_line(machine, "MPI", Verdict::fail, "no slots are left", "openmpi-bin");
  machine.environment.variables["OMPI_COMM_WORLD_SIZE"] = "1";  // started by mpirun itself
  EXPECT_EQ(machine.find("MPI").verdict, Verdict::none);
  machine.environment.variables.erase("OMPI_COMM_WORLD_SIZE");
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
  machine.write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
  expect_line(machine, "processor", Verdict::warn, "fp32 30 GFLOP/s", "cpupower frequency-info");
  machine.cpu_peaks.fp32_flops = 110e9;
  expect_pass(machine, "processor");
  machine.cpu_peaks.bf16_flops = 90e9;
  expect_line(machine, "processor", Verdict::warn, "bf16 is slower", "ONEDNN_MAX_CPU_ISA");
  machine.environment.has_onednn = false;
  expect_line(machine, "processor", Verdict::warn, "without oneDNN", "-DLOCKSTEP_ONEDNN=ON");
  machine.write("/proc/cpuinfo", "model name\t: Old\nflags\t\t: fpu sse2 avx\n");
  expect_line(machine, "processor", Verdict::fail, "Old has no AVX2", "-cpu host");
}

TEST(DoctorHost, AFileSystemThatNeverAnswers) {
  FakeMachine machine;
  std::promise<void> mended;
  Findings said;
  // Far more than the faked machine's other subjects take.
  machine.environment.watch =
      std::make_shared<Watch>(std::chrono::seconds(4), [&](const Findings& findings) {
        said = findings;
        mended.set_value();
      });
  machine.environment.write_trial = [&](const std::string&) {
    mended.get_future().wait();
    return machine.trial;
  };
  machine.examine();
  machine.environment.watch->stop();
  ASSERT_GT(said.size(), 10u) << "what was found before";
  EXPECT_EQ(said[0].subject, "driver");
  EXPECT_EQ(said.back().subject, "storage");
  EXPECT_EQ(said.back().verdict, Verdict::fail);
  EXPECT_THAT(said.back().text, HasSubstr("no answer for 4 s"));
  EXPECT_THAT(said.back().remedy, HasSubstr("--out FOLDER"));
}

TEST(DoctorHost, TheWatchIsSilentWhereAllAnswer) {
  bool spoke = false;
  {
    Watch watch(std::chrono::milliseconds(50), [&](const Findings&) { spoke = true; });
    watch.begin("driver");
    watch.pause();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  EXPECT_FALSE(spoke);
}

TEST(DoctorHost, AToolThatOutlivesItsTime) {
  FakeMachine machine;
  machine.make_tool("slow", "echo begun; sleep 60");
  const ToolResult result = machine.environment.run_tool({"slow"}, 0.5);
  EXPECT_TRUE(result.timed_out);
  EXPECT_NE(result.exit_code, 0);
}

TEST(DoctorHost, AChildThatCannotBeWaitedForHasNotSucceeded) {
  FakeMachine machine;
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(machine.environment.run_tool({"mpirun"}, 10).exit_code, 127);
  std::signal(SIGCHLD, before);
  EXPECT_EQ(machine.environment.run_tool({"mpirun"}, 10).exit_code, 0);
}

TEST(DoctorHost, AnEntryThatDoesNotFitIsLeftOut) {
  FakeMachine machine;
  std::string list = "100000";
  for (int cpu = 100002; list.size() < 2000; cpu += 2) list += fmt::format(",{}", cpu);
  machine.threads = parse_cpu_list(list);
  const std::string sent = place_of(machine.environment, {}).threads;
  EXPECT_GT(sent.size(), 1000u);
  EXPECT_TRUE(list.starts_with(sent + ","));
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

TcpSocket listener(std::uint16_t port, IpAddress address) {
  TcpSocket socket;
  socket.state = TcpSocket::State::listening;
  socket.local = address;
  socket.local_port = port;
  return socket;
}

TEST(DoctorPorts, OfOneHostAreClosedUnlessTheUserOpensThem) {
  FakeMachine machine;
  expect_pass(machine, "ports");
  for (const char* opens : {"self,vader,tcp", "tcp", "^vader"}) {
    machine.set("OMPI_MCA_btl", opens);
    expect_line(machine, "ports", Verdict::warn, "eth0 10.1.2.3", "unset OMPI_MCA_btl");
  }
  for (const char* closed : {"^tcp,ofi", "self,vader", "^openib,tcp"}) {
    machine.set("OMPI_MCA_btl", closed);
    expect_pass(machine, "ports");
  }
  machine.unset("OMPI_MCA_btl");
}

TEST(DoctorPorts, AnOpenPortOfARankIsNamed) {
  FakeMachine machine;
  machine.environment.mpi_runs = true;
  machine.environment.ranks = machine.environment.ranks_here = 2;
  machine.sockets = {listener(4000, ipv4_loopback())};
  expect_pass(machine, "ports");
  machine.sockets.push_back(listener(1024, {}));
  expect_line(machine, "ports", Verdict::warn, "1024", "--mca btl ^tcp,ofi");
}

TEST(DoctorPorts, OfSeveralHostsAreNamedWithTheirInterfaces) {
  FakeMachine machine;
  machine.environment.mpi_runs = true;
  machine.environment.ranks = 4;
  machine.environment.ranks_here = 2;
  machine.sockets = {listener(1024, {}), listener(4000, ipv4_loopback())};
  machine.set("NCCL_SOCKET_IFNAME", "ib0");
  const Finding found = machine.find("ports");
  for (const char* word : {"eth0 10.1.2.3", "1024", "watchdog", "ib0"})
    EXPECT_THAT(found.text, HasSubstr(word));
  EXPECT_THAT(found.text, ::testing::Not(HasSubstr("4000"))) << "only this host reaches it";
  machine.unset("NCCL_SOCKET_IFNAME");
}

}  // namespace
}  // namespace lockstep::doctor

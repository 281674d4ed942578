// SPDX-License-Identifier: Apache-2.0
// Broken machines with GPUs: the line says what is wrong, and what it advises makes it pass.
#include <gtest/gtest.h>

#include "tests/doctor/expect.h"

namespace lockstep::doctor {
namespace {

using ::testing::HasSubstr;

TEST(DoctorGpu, AWholeMachinePasses) {
  FakeMachine machine;
  for (const Finding& finding : machine.examine()) {
    EXPECT_TRUE(finding.verdict == Verdict::pass || finding.subject == "NCCL")
        << finding.subject << ": " << finding.text;
    EXPECT_EQ(finding.remedy, "") << finding.subject;
  }
  EXPECT_THAT(machine.find("GPU speed").text,
              HasSubstr("2 x NVIDIA H100 80GB HBM3 (Hopper, data centre): copies 2.90 TB/s (87% of "
                        "the model's), bf16 products 680 TFLOP/s (69%)"));
  EXPECT_EQ(machine.find("devices").text, "2 GPUs");
  EXPECT_THAT(machine.find("peer access").text, HasSubstr("1 of 1 pairs"));
}

TEST(DoctorGpu, NoGpuExplainsTheZero) {
  FakeMachine machine;
  machine.remove_driver();
  machine.remove_gpus();
  expect_line(machine, "driver", Verdict::warn, "number of devices is 0", "--device cpu");
  EXPECT_EQ(machine.find("devices").verdict, Verdict::none);
  machine.environment.device = "cuda";
  expect_line(machine, "driver", Verdict::fail, "no NVIDIA GPU", "srun --gpus-per-task=1");
  machine.environment.device = "cpu";
  for (const Finding& finding : machine.examine())
    EXPECT_LT(finding.verdict, Verdict::warn) << finding.subject << ": " << finding.text;
}

TEST(DoctorGpu, DriverNotInstalled) {
  FakeMachine machine;
  machine.remove_driver();
  expect_line(machine,
              "driver",
              Verdict::fail,
              "2 NVIDIA GPUs are in this machine, but no driver",
              "apt install nvidia-driver");
  machine.install_driver();
  expect_pass(machine, "driver");
  expect_pass(machine, "devices");
}

TEST(DoctorGpu, KernelModuleNotLoaded) {
  FakeMachine machine;
  const std::string version = machine.environment.read("/proc/driver/nvidia/version");
  machine.remove("/proc/driver");
  expect_line(machine, "driver", Verdict::fail, "kernel has not loaded", "modprobe nvidia");
  machine.write("/proc/driver/nvidia/version", version);
  expect_pass(machine, "driver");
}

TEST(DoctorGpu, LibraryOutsideTheSearchPath) {
  FakeMachine machine;
  machine.move("/lib", "/usr/local/nvidia/lib64");
  expect_line(machine,
              "driver",
              Verdict::fail,
              "libcuda.so.1 is in /usr/local/nvidia/lib64",
              "export LD_LIBRARY_PATH=/usr/local/nvidia/lib64:");
  machine.move("/usr/local/nvidia/lib64", "/lib");  // now it is looked for there
  expect_pass(machine, "driver");
}

TEST(DoctorGpu, KernelAndLibrariesOfDifferentVersions) {
  FakeMachine machine;
  const std::string version = machine.environment.read("/proc/driver/nvidia/version");
  machine.write("/proc/driver/nvidia/version",
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.14  Release\n");
  expect_line(machine,
              "driver",
              Verdict::fail,
              "the kernel runs driver 550.54.14, the libraries are of 580.65.06",
              "sudo reboot");
  EXPECT_THAT(machine.find("devices").text, HasSubstr("for the driver's reason"));
  machine.write("/proc/driver/nvidia/version", version);  // what a reboot loads
  expect_pass(machine, "driver");
  expect_pass(machine, "devices");
}

TEST(DoctorGpu, StubInsteadOfTheDriver) {
  FakeMachine machine;
  machine.set_gpu("init", "34");
  expect_line(machine, "driver", Verdict::fail, "stub", "LD_LIBRARY_PATH");
  machine.set_gpu("init", "");
  expect_pass(machine, "driver");
}

TEST(DoctorGpu, DriverOlderThanTheRuntime) {
  FakeMachine machine;
  machine.set_gpu("cuda", "12040");
  expect_line(machine,
              "CUDA",
              Verdict::fail,
              "the driver does CUDA 12.4, this program was built with 13.0",
              "update the driver to 580");
  machine.set_gpu("cuda", "13000");
  expect_pass(machine, "CUDA");
}

TEST(DoctorGpu, ProgramWithoutCuda) {
  FakeMachine machine;
  machine.environment.build = {"no nvcc was found that works", 0, {}};
  machine.environment.measure_gpu = nullptr;
  expect_line(machine, "CUDA", Verdict::fail, "no nvcc was found", "-DLOCKSTEP_CUDA=ON");
  EXPECT_EQ(machine.find("GPU speed").verdict, Verdict::none);
  machine.environment.build = {"", 13000, {90}};
  expect_pass(machine, "CUDA");
}

TEST(DoctorGpu, EmptyVisibleDevices) {
  FakeMachine machine;
  machine.set("CUDA_VISIBLE_DEVICES", "");
  expect_line(machine,
              "devices",
              Verdict::fail,
              "CUDA_VISIBLE_DEVICES is set to nothing",
              "unset CUDA_VISIBLE_DEVICES");
  expect_pass(machine, "driver");
  machine.unset("CUDA_VISIBLE_DEVICES");
  expect_pass(machine, "devices");
}

TEST(DoctorGpu, WrongVisibleDevices) {
  FakeMachine machine;
  machine.set("CUDA_VISIBLE_DEVICES", "7");
  expect_line(machine,
              "devices",
              Verdict::fail,
              "'7' is none of this machine's 0 to 1",
              "export CUDA_VISIBLE_DEVICES=0,1");
  machine.set("CUDA_VISIBLE_DEVICES", "1,5");  // CUDA takes the first and says nothing
  expect_line(
      machine, "devices", Verdict::warn, "CUDA stops at '5'", "export CUDA_VISIBLE_DEVICES=0,1");
  machine.set("CUDA_VISIBLE_DEVICES", "0,1");
  expect_pass(machine, "devices");
  machine.set("CUDA_VISIBLE_DEVICES", "1");
  EXPECT_EQ(machine.find("devices").text, "1 of 2 GPUs: CUDA_VISIBLE_DEVICES=1");
}

TEST(DoctorGpu, DeviceFilesWithoutPermission) {
  FakeMachine machine;
  const auto open = [&](bool to_all) {
    for (const char* file : {"/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia-uvm"})
      machine.open_to_all(file, to_all);
  };
  open(false);
  expect_line(machine,
              "devices",
              Verdict::fail,
              "may not be opened (Permission denied): this user has no permission",
              "chmod a+rw /dev/nvidia*");
  open(true);
  expect_pass(machine, "devices");
}

TEST(DoctorGpu, ContainerWithoutTheDriver) {
  FakeMachine machine;
  machine.remove("/lib");
  machine.remove("/dev");
  machine.write("/.dockerenv", "");
  expect_line(machine,
              "driver",
              Verdict::fail,
              "this Docker container was started without it",
              "docker run --gpus all");
  machine.install_driver();  // what the container toolkit brings in
  expect_pass(machine, "driver");
  expect_pass(machine, "devices");
}

TEST(DoctorGpu, ContainerWithoutDeviceFiles) {
  FakeMachine machine;
  machine.move("/dev", "/host");
  machine.write("/run/.containerenv", "");
  expect_line(machine,
              "devices",
              Verdict::fail,
              "this Podman container was not given the GPUs",
              "--device nvidia.com/gpu=all");
  machine.move("/host", "/dev");
  expect_pass(machine, "devices");
}

TEST(DoctorGpu, DeviceFilesMissingOutsideContainers) {
  FakeMachine machine;
  machine.move("/dev/nvidia-uvm", "/nvidia-uvm");
  expect_line(
      machine, "devices", Verdict::fail, "/dev/nvidia-uvm is missing", "nvidia-modprobe -u -c=0");
  machine.move("/nvidia-uvm", "/dev/nvidia-uvm");
  expect_pass(machine, "devices");
}

TEST(DoctorGpu, CgroupKeepsTheDeviceAway) {
  FakeMachine machine;
  for (const char* file : {"/dev/nvidia0", "/dev/nvidia1"})
    machine.write(file, "denied by cgroup\n");
  expect_line(machine, "devices", Verdict::fail, "cgroup of this process", "DeviceAllow=");
  machine.set("SLURM_JOB_ID", "42");
  expect_line(machine, "devices", Verdict::fail, "Slurm's cgroup", "--gpus-per-task=1");
  machine.unset("SLURM_JOB_ID");
  machine.write("/.dockerenv", "");
  expect_line(machine, "devices", Verdict::fail, "cgroup of this Docker container", "--gpus all");
  machine.write("/dev/nvidia1", "\n");  // one GPU is allowed
  expect_pass(machine, "devices");
  machine.set("CUDA_VISIBLE_DEVICES", "");  // not the cgroup's fault
  expect_line(machine, "devices", Verdict::fail, "set to nothing", "unset CUDA_VISIBLE_DEVICES");
}

TEST(DoctorGpu, FabricManagerNotRunning) {
  FakeMachine machine;
  machine.set_gpu("init", "802");
  expect_line(machine, "devices", Verdict::fail, "fabric manager", "systemctl enable --now");
  machine.set_gpu("init", "");
  expect_pass(machine, "devices");
}

TEST(DoctorGpu, ComputeModeProhibited) {
  FakeMachine machine;
  machine.set_gpu("gpu1.mode", "2");
  expect_line(machine,
              "devices",
              Verdict::fail,
              "GPU 1 lets no process in",
              "nvidia-smi -i 0000:43:00.0 -c DEFAULT");
  machine.set_gpu("gpu1.mode", "0");
  expect_pass(machine, "devices");
}

TEST(DoctorGpu, ArchitectureNotBuiltFor) {
  FakeMachine machine;
  machine.set_gpu("gpu0.name", "NVIDIA A10");
  machine.set_gpu("gpu0.capability", "86");
  machine.environment.build.architectures = {90};
  expect_line(machine,
              "architecture",
              Verdict::fail,
              "capability 8.6, this program is built for 9.0",
              "-DCMAKE_CUDA_ARCHITECTURES=86");
  machine.environment.build.architectures = {86, 90};
  expect_pass(machine, "architecture");
  machine.environment.build.architectures = {80, 90};  // code for 8.0 runs on 8.6
  expect_pass(machine, "architecture");
  machine.set_gpu("gpu0.capability", "120");
  expect_line(machine, "architecture", Verdict::warn, "newer", "-DCMAKE_CUDA_ARCHITECTURES=120");
  machine.set_gpu("gpu0.capability", "70");
  expect_line(machine, "architecture", Verdict::fail, "8.0 is the least", "CUDA_VISIBLE_DEVICES");
}

TEST(DoctorGpu, AnotherProcessFillsTheMemory) {
  FakeMachine machine;
  machine.set_gpu("gpu1.used", "68719476736");
  machine.set_gpu("gpu1.process", "4711");
  machine.write("/proc/4711/comm", "python3\n");
  expect_line(machine,
              "GPU memory",
              Verdict::fail,
              "others use 64 GiB of 79.6 GiB of GPU 1: process 4711 (python3) holds 64 GiB",
              "kill 4711");
  machine.set_gpu("gpu1.used", "8589934592");
  expect_line(machine, "GPU memory", Verdict::warn, "8 GiB", "kill 4711");
  machine.set_gpu("gpu1.used", "600000000");
  machine.set_gpu("gpu1.process", "");
  expect_pass(machine, "GPU memory");
}

TEST(DoctorGpu, MemoryErrors) {
  FakeMachine machine;
  machine.set_gpu("gpu0.ecc_errors", "3");
  machine.set_gpu("gpu0.rows_pending", "1");
  expect_line(machine,
              "ECC",
              Verdict::fail,
              "3 memory errors that could not be corrected; bad rows wait for a reset",
              "nvidia-smi -i 0000:1b:00.0 -r");
  machine.set_gpu("gpu0.ecc_errors", "0");
  machine.set_gpu("gpu0.rows_pending", "0");
  expect_pass(machine, "ECC");
  machine.set_gpu("gpu1.ecc", "0");
  expect_line(machine, "ECC", Verdict::warn, "switched off", "-e 1");
  machine.set_gpu("gpu1.ecc", "1");
  machine.set_gpu("gpu1.rows_failed", "1");
  expect_line(machine, "ECC", Verdict::fail, "has to be replaced", "leave it out");
}

TEST(DoctorGpu, ThrottledClocks) {
  FakeMachine machine;
  machine.set_gpu("gpu1.power", "350000");
  expect_line(machine,
              "clocks",
              Verdict::warn,
              "may draw 350 W of its 700 W",
              "nvidia-smi -i 0000:43:00.0 -pl 700");
  machine.set_gpu("gpu1.power", "700000");
  expect_pass(machine, "clocks");
  machine.set_gpu("gpu1.clock", "1200");
  expect_line(
      machine, "clocks", Verdict::warn, "set to 1200 MHz, its model's default is 1980", "-rac");
  machine.set_gpu("gpu1.clock", "1980");
  expect_pass(machine, "clocks");
  machine.set_gpu("gpu1.throttled", "72");  // hardware slowdown, thermal
  expect_line(machine, "clocks", Verdict::warn, "it is too hot", "airflow");
  machine.set_gpu("gpu1.throttled", "0");
  expect_pass(machine, "clocks");
}

TEST(DoctorGpu, LinksThatAreDown) {
  FakeMachine machine;
  machine.set_gpu("gpu0.nvlinks_up", "12");
  expect_line(machine, "topology", Verdict::warn, "6 of 18 NVLinks are down", "nvidia-smi nvlink");
  machine.set_gpu("gpu0.nvlinks_up", "18");
  machine.set_gpu("gpu1.width", "4");
  expect_line(machine, "topology", Verdict::warn, "on 4 of 16 PCIe lanes", "x16 slot");
  machine.set_gpu("gpu1.width", "16");
  expect_pass(machine, "topology");
  machine.set_gpu("peers", "0");
  expect_line(machine, "peer access", Verdict::warn, "0 of 1 pairs", "iommu=off");
}

TEST(DoctorGpu, RankBoundFarFromItsGpu) {
  FakeMachine machine;
  machine.write("/sys/bus/pci/devices/0000:43:00.0/numa_node", "1\n");
  machine.environment.ranks = machine.environment.ranks_here = 2;
  machine.environment.local_rank = 1;
  machine.write("/proc/self/status", "Cpus_allowed_list:\t0-1\n");
  expect_line(
      machine, "topology", Verdict::warn, "GPU 1 is on another NUMA node", "--bind-to none");
  machine.write("/proc/self/status", "Cpus_allowed_list:\t0-7\n");
  expect_pass(machine, "topology");
}

TEST(DoctorGpu, SlowerThanItsModel) {
  FakeMachine machine;
  machine.gpu_peaks.bytes = 1.2e12;
  expect_line(machine,
              "GPU speed",
              Verdict::warn,
              "slower than its model should be",
              "nvidia-smi -i 0000:1b:00.0");
  machine.gpu_peaks.bytes = 2.9e12;
  expect_pass(machine, "GPU speed");
  machine.set_gpu("gpu0.name", "NVIDIA X1");  // no figures: measured, and not judged
  machine.set_gpu("gpu1.name", "NVIDIA X1");
  EXPECT_THAT(machine.find("GPU speed").text, HasSubstr("no figures of this model"));
}

TEST(DoctorGpu, ALaunchedRankLooksAtItsOwn) {
  FakeMachine machine;
  machine.set_gpu("gpu1.ecc_errors", "3");
  machine.environment.ranks = machine.environment.ranks_here = 2;
  machine.environment.local_rank = 0;
  expect_pass(machine, "ECC");
  machine.environment.local_rank = 1;
  EXPECT_EQ(machine.find("ECC").verdict, Verdict::fail);
}

}  // namespace
}  // namespace lockstep::doctor

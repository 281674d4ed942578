// SPDX-License-Identifier: Apache-2.0
// NVIDIA's driver, its libraries and CUDA, broken: the line says what is wrong, and what it advises
// makes it pass.
#include <gtest/gtest.h>
#include <string>

#include "tests/doctor/expect.h"

namespace lockstep::doctor {
namespace {

using ::testing::HasSubstr;

TEST(DoctorGpu, NoGpuExplainsTheZero) {
  FakeMachine machine;
  machine.remove_driver();
  machine.remove_gpus();
  expect_line(machine, "driver", Verdict::warn, "number of devices is 0", "--device cpu");
  EXPECT_EQ(machine.find("devices").verdict, Verdict::none);
  machine.environment.device = "cuda";
  expect_line(machine, "driver", Verdict::fail, "no NVIDIA GPU", "srun --gpus-per-node=8");
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

TEST(DoctorGpu, LibraryThatCannotBeOpened) {
  FakeMachine machine;
  machine.remove("/lib/libcuda.so.1");
  machine.write("/lib/libcuda.so.1", "no library, whatever its name says");
  machine.write("/usr/lib64/libcuda.so.1", "another");
  expect_line(
      machine, "driver", Verdict::fail, "cannot be opened: ", "apt install --reinstall libcuda1");
  machine.write("/.dockerenv", "");
  expect_line(machine, "driver", Verdict::fail, "file too short", "out of the image");
  machine.remove("/.dockerenv");
  machine.remove("/lib");
  machine.install_driver();
  expect_pass(machine, "driver");
}

TEST(DoctorGpu, CudaThatDoesNotStart) {
  FakeMachine machine;
  for (const char* status : {"999", "46", "3"})
    for (const char* visible : {"", "0", "7", "0,1"}) {
      machine.set_gpu("init", status);
      machine.set("CUDA_VISIBLE_DEVICES", visible);
      EXPECT_EQ(machine.find("driver").verdict, Verdict::none) << status;
      expect_line(machine, "devices", Verdict::fail, "CUDA says CUDA_ERROR_", "dmesg");
      EXPECT_EQ(machine.find("devices").text.find("VISIBLE"), std::string::npos) << status;
    }
  machine.set_gpu("init", "100");  // the same zero, and neither is the variable's fault
  machine.set("CUDA_VISIBLE_DEVICES", "0");
  expect_line(machine, "devices", Verdict::fail, "CUDA_ERROR_NO_DEVICE", "dmesg");
  machine.set("CUDA_VISIBLE_DEVICES", "GPU-abc");
  expect_line(machine, "devices", Verdict::fail, "GPU-abc", "nvidia-smi -L");
  machine.set_gpu("init", "");
  machine.set("CUDA_VISIBLE_DEVICES", "0");
  expect_pass(machine, "driver");
  expect_pass(machine, "devices");
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

}  // namespace
}  // namespace lockstep::doctor

// SPDX-License-Identifier: Apache-2.0
// Broken machines with GPUs: the line says what is wrong, and what it advises makes it pass.
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "launcher/doctor/nvidia.h"
#include "launcher/doctor/place.h"
#include "tests/doctor/expect.h"

namespace lockstep::doctor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(DoctorGpu, NcclThatIsMissing) {
  FakeMachine machine;
  machine.nccl = "";
  expect_line(machine, "NCCL", Verdict::fail, "libnccl.so.2: not found", "LOCKSTEP_NCCL=off");
  machine.nccl = "2.28.9";
  EXPECT_EQ(machine.find("NCCL").text, "2.28.9 from /usr/lib/libnccl.so.2");
  machine.nccl = "none";
  expect_line(machine, "NCCL", Verdict::warn, "through host memory and MPI", "libnccl-dev");
}

TEST(DoctorGpu, LibrariesThatAreMissing) {
  FakeMachine machine;
  machine.libraries.no_compiler_because = "libnvrtc.so.13 cannot be opened";
  expect_line(machine, "CUDA libraries", Verdict::warn, "libnvrtc.so.13 cannot", "LD_LIBRARY_PATH");
  machine.libraries.versions = "";
  expect_line(machine, "CUDA libraries", Verdict::fail, "libcudnn.so.9: not found", "install it");
}

TEST(DoctorGpu, TheFilesOfLibrariesAreNamed) {
  FakeMachine machine;
  machine.libraries.files = {{"cuDNN", "9.19.0", "/venv/nvidia/cudnn/lib/libcudnn.so.9", "", ""},
                             {"NVRTC", "", "/usr/lib/libnvrtc.so.13", "", ""},
                             {"CUPTI", "", "", "libcupti.so.13: none", "pip install it"}};
  const std::string text = machine.find("CUDA libraries").text;
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("CUDA 13.0, cuBLASLt 13.1.0, cuDNN 9.19.0; taken: cuDNN 9.19.0 from "
                      "/venv/nvidia/cudnn/lib/libcudnn.so.9, NVRTC from "
                      "/usr/lib/libnvrtc.so.13"),
            HasSubstr("--profile takes no kernel times: libcupti.so.13: none (pip install")));
  // Where they are is not a difference between ranks; what they are is.
  EXPECT_EQ(machine.find("CUDA libraries").trait, machine.libraries.versions);
  machine.libraries.files[1] = {
      "NVRTC", "", "", "no libnvrtc.so.13", "pip install nvidia-cuda-nvrtc"};
  machine.libraries.no_compiler_because = "no libnvrtc.so.13";
  expect_line(machine, "CUDA libraries", Verdict::warn, "no libnvrtc", "nvidia-cuda-nvrtc");
}

TEST(DoctorGpu, AWholeMachinePasses) {
  FakeMachine machine;
  for (const Finding& finding : machine.examine()) {
    EXPECT_EQ(finding.verdict, Verdict::pass) << finding.subject << ": " << finding.text;
    EXPECT_EQ(finding.remedy, "") << finding.subject;
  }
  EXPECT_THAT(machine.find("GPU speed").text,
              HasSubstr("2 x NVIDIA H100 80GB HBM3 (Hopper, data centre): copies 2.90 TB/s (87% of "
                        "the model's), bf16 matmul 680 TFLOP/s (69%)"));
  EXPECT_EQ(machine.find("devices").text, "2 GPUs");
  EXPECT_THAT(machine.find("peer access").text, HasSubstr("1 of 1 pairs"));
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
  expect_line(machine, "devices", Verdict::fail, "Slurm's cgroup", "srun --gpus-per-node=8");
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

TEST(DoctorGpu, EccThatNobodyTells) {
  FakeMachine machine;
  machine.set_gpu("gpu1.ecc_status", "999");
  EXPECT_EQ(machine.find("ECC").verdict, Verdict::none);
  machine.set_gpu("gpu1.ecc_status", "");
  machine.set_gpu("gpu1.ecc_errors", "");
  EXPECT_EQ(machine.find("ECC").text, "on; the errors so far are not said");
  for (const char* name : {"gpu0.ecc", "gpu1.ecc"}) machine.set_gpu(name, "");
  EXPECT_EQ(machine.find("ECC").text, "this model has none");
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
  machine.set_gpu("gpu1.throttled", "");  // unknown
  EXPECT_EQ(machine.find("clocks").verdict, Verdict::none);
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

TEST(DoctorGpu, ABridgedCardIsComparedWithTheOthers) {
  FakeMachine machine;
  for (const char* gpu : {"gpu0.", "gpu1."}) {
    machine.set_gpu(std::string(gpu) + "name", "NVIDIA H100 PCIe");
    machine.set_gpu(std::string(gpu) + "nvlinks_up", "12");
  }
  expect_pass(machine, "topology");  // its third bridge was never bought
  machine.set_gpu("gpu1.nvlinks_up", "8");
  expect_line(machine, "topology", Verdict::warn, "GPU 1: 4 of 12 NVLinks are down", "nvlink");
  for (const char* gpu : {"gpu0.", "gpu1."}) {
    machine.set_gpu(std::string(gpu) + "name", "NVIDIA A100-SXM4-80GB");
    machine.set_gpu(std::string(gpu) + "nvlinks_up", "12");
  }
  expect_line(machine, "topology", Verdict::warn, "6 of 18 NVLinks are down", "nvlink");
}

TEST(DoctorGpu, AMigInstanceIsNoWholeGpu) {
  FakeMachine machine;
  for (const char* gpu : {"gpu0.", "gpu1."}) {
    machine.set_gpu(std::string(gpu) + "name", "NVIDIA H100 80GB HBM3 MIG 1g.10gb");
    machine.set_gpu(std::string(gpu) + "used", "68719476736");  // all instances of it together
    machine.set_gpu(std::string(gpu) + "address", "0000:1b:00.0");
  }
  machine.set_gpu("gpu0.uuid", "one");
  machine.set_gpu("gpu1.uuid", "two");
  const Finding memory = machine.find("GPU memory");
  EXPECT_EQ(memory.verdict, Verdict::none) << memory.text;
  EXPECT_THAT(memory.text, HasSubstr("in this MIG instance"));
  EXPECT_THAT(machine.find("GPU speed").text, HasSubstr("no figures of this model"));
  const GpuFacts facts = read_gpus(machine.environment);
  ASSERT_EQ(facts.gpus.size(), 2u);
  EXPECT_NE(facts.gpus[0].id, facts.gpus[1].id);
}

TEST(DoctorGpu, AGpuForEachRank) {
  FakeMachine machine;
  std::vector<Place> places;
  const auto resolve_with = [&](const std::vector<std::string>& visible) {
    places.clear();
    for (const std::string& gpu : visible) {
      machine.set("CUDA_VISIBLE_DEVICES", gpu);
      places.push_back(place_of(machine.environment, read_gpus(machine.environment)));
    }
    resolve(machine.environment, places, 1);
  };
  resolve_with({"0", "1"});
  EXPECT_EQ(machine.environment.ranks_here, 2);
  EXPECT_EQ(machine.environment.local_rank, 1);
  EXPECT_EQ(machine.find("cores").text, "2 GPUs for 2 ranks");
  resolve_with({"1", "1"});
  expect_line(machine, "cores", Verdict::warn, "2 ranks share 1 GPU:", "mpirun -np 1");
  places[0].host[0] = '?';  // another host has a GPU of this address as well
  resolve(machine.environment, places, 1);
  EXPECT_EQ(machine.find("cores").text, "1 GPU for 1 rank");
}

TEST(DoctorGpu, RankBoundFarFromItsGpu) {
  FakeMachine machine;
  machine.write("/sys/bus/pci/devices/0000:43:00.0/local_cpulist", "4-7\n");
  machine.environment.ranks = machine.environment.ranks_here = 2;
  machine.environment.local_rank = 1;
  machine.threads = {0, 1};
  expect_line(
      machine, "topology", Verdict::warn, "GPU 1 is on another NUMA node", "--bind-to numa");
  machine.threads = {4, 5, 6, 7};  // so it is bound then
  expect_pass(machine, "topology");
  expect_pass(machine, "affinity");
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

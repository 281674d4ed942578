// SPDX-License-Identifier: Apache-2.0
#include "tests/doctor/fake_machine.h"

#include <cerrno>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <stdexcept>

#include "launcher/doctor/nvidia.h"
#include "lockstep/error.h"

namespace lockstep::doctor {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVersion = "580.65.06";
constexpr const char* kAddresses[] = {"0000:1b:00.0", "0000:43:00.0"};

fs::path temporary_folder() {
  std::string name = fs::temp_directory_path() / "lockstep-doctor-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  return name;
}

/// As the kernel answers a user who is not root.
int open_as_user(const std::string& path) {
  std::error_code none;
  const fs::perms permissions = fs::status(path, none).permissions();
  if (none) return ENOENT;
  if ((permissions & (fs::perms::others_read | fs::perms::others_write)) !=
      (fs::perms::others_read | fs::perms::others_write))
    return EACCES;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line == "denied by cgroup" ? EPERM : 0;
}

std::string limits(const char* locked, const char* files) {
  return fmt::format(
      "Limit                     Soft Limit           Hard Limit           Units     \n"
      "Max open files            {}                 1048576              files     \n"
      "Max locked memory         {}            unlimited            bytes     \n",
      files,
      locked);
}

}  // namespace

FakeMachine::FakeMachine() : folder_(temporary_folder()) {
  environment.root = folder_;
  environment.library_folder = folder_ / "lib";
  environment.program = "/usr/bin/lockstep";
  environment.out = "/runs";
  environment.variables["PATH"] = folder_ / "bin";
  environment.build = {"", 13000, {80, 90}};
  environment.open_device = open_as_user;
  environment.space = [this](const std::string& path) -> std::optional<Space> {
    if (path.ends_with("/dev/shm")) return shared_memory;
    return disk;
  };
  environment.allowed_threads = [this] { return threads; };
  environment.tcp_sockets = [this] { return sockets; };
  environment.interfaces = [] {
    return std::vector<NetworkInterface>{{"eth0", {.bytes = {10, 1, 2, 3}}}};
  };
  environment.write_trial = [this](const std::string&) { return trial; };
  environment.cuda_libraries = [this] {
    if (libraries.versions.empty())
      throw EnvironmentError("libcudnn.so.9: not found", "install it");
    return libraries;
  };
  environment.nccl_version = [this] {
    if (nccl.empty()) throw EnvironmentError("libnccl.so.2: not found", "install NCCL 2");
    return nccl == "none" ? std::string() : nccl;
  };
  environment.nccl_file = [] { return std::string("/usr/lib/libnccl.so.2"); };
  environment.measure_cpu = [this] { return cpu_peaks; };
  environment.measure_gpu = [this](int) { return gpu_peaks; };
  for (const char* address : kAddresses) {
    const std::string device = std::string("/sys/bus/pci/devices/") + address;
    write(device + "/vendor", "0x10de\n");
    write(device + "/class", "0x030200\n");
  }
  unset("CUDA_VISIBLE_DEVICES");
  install_driver();
  make_tool("mpirun", "exit 0");
  make_tool("ompi_info", "echo mca:mpi:base:param:mpi_built_with_cuda_support:value:false");
  write("/proc/self/limits", limits("unlimited", "20000"));
  write("/proc/self/cgroup", "0::/\n");
  write("/proc/cpuinfo",
        "model name\t: AMD EPYC 9654\ncpu MHz\t\t: 3400.0\n"
        "flags\t\t: fpu sse2 avx2 fma avx512f avx512_bf16\n");
  write("/sys/devices/system/cpu/online", "0-7\n");
  write("/sys/devices/system/node/node0/cpulist", "0-3\n");
  write("/sys/devices/system/node/node1/cpulist", "4-7\n");
}

FakeMachine::~FakeMachine() {
  unset("CUDA_VISIBLE_DEVICES");
  std::error_code none;
  fs::remove_all(folder_, none);
}

void FakeMachine::install_driver() {
  fs::create_directories(folder_ / "lib");
  for (const std::string& name :
       {std::string("libcuda.so.") + kVersion, std::string("libnvidia-ml.so.1")})
    fs::copy_file(LOCKSTEP_FAKE_NVIDIA, folder_ / "lib" / name);
  fs::create_symlink(std::string("libcuda.so.") + kVersion, folder_ / "lib/libcuda.so.1");
  write("/proc/driver/nvidia/version",
        fmt::format("NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Sun Jul 27\n", kVersion));
  for (const char* name : {"nvidiactl", "nvidia0", "nvidia1", "nvidia-uvm"}) {
    write(std::string("/dev/") + name, "\n");
    open_to_all(std::string("/dev/") + name, true);
  }
  gpus_ = {{"gpus", "2"}, {"cuda", "13000"}, {"version", kVersion}, {"peers", "1"}};
  for (int i = 0; i < 2; ++i) {
    const std::string address = kAddresses[i], gpu = fmt::format("gpu{}.", i);
    write("/proc/driver/nvidia/gpus/" + address + "/information", "Model: NVIDIA H100\n");
    for (const auto& [name, value] :
         std::map<std::string, std::string>{{"name", "NVIDIA H100 80GB HBM3"},
                                            {"capability", "90"},
                                            {"address", address},
                                            {"memory", "85520809984"},
                                            {"used", "600000000"},
                                            {"ecc", "1"},
                                            {"ecc_errors", "0"},
                                            {"mode", "0"},
                                            {"throttled", "1"},
                                            {"power", "700000"},
                                            {"full_power", "700000"},
                                            {"clock", "1980"},
                                            {"full_clock", "1980"},
                                            {"nvlinks", "18"},
                                            {"nvlinks_up", "18"},
                                            {"width", "16"},
                                            {"full_width", "16"}})
      gpus_[gpu + name] = value;
  }
  set_gpu("gpus", "2");
}

void FakeMachine::remove_driver() const {
  for (const char* path : {"/lib", "/proc/driver", "/dev"}) remove(path);
}

void FakeMachine::remove_gpus() const { remove("/sys/bus"); }

void FakeMachine::write(const std::string& path, const std::string& text) const {
  const fs::path file = folder_.string() + path;
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

void FakeMachine::remove(const std::string& path) const { fs::remove_all(folder_.string() + path); }

void FakeMachine::move(const std::string& from, const std::string& to) const {
  const fs::path target = folder_.string() + to;
  fs::create_directories(target.parent_path());
  fs::rename(folder_.string() + from, target);
}

void FakeMachine::make_tool(const std::string& name, const std::string& script) const {
  const std::string path = "/bin/" + name;
  write(path, "#!/bin/sh\n" + script + "\n");
  fs::permissions(folder_.string() + path, fs::perms(0755));
}

void FakeMachine::set(const std::string& name, const std::string& value) {
  environment.variables[name] = value;
  setenv(name.c_str(), value.c_str(), 1);
}

void FakeMachine::unset(const std::string& name) {
  environment.variables.erase(name);
  unsetenv(name.c_str());
}

void FakeMachine::set_gpu(const std::string& name, const std::string& value) {
  gpus_[name] = value;
  std::string text;
  for (const auto& [key, words] : gpus_)
    if (!words.empty()) text += key + " " + words + "\n";
  write("/lib/gpus.conf", text);
}

void FakeMachine::open_to_all(const std::string& path, bool open) const {
  fs::permissions(folder_.string() + path, fs::perms(open ? 0666 : 0660));
}

Findings FakeMachine::examine() const {
  return doctor::examine(environment, read_gpus(environment));
}

Finding FakeMachine::find(const std::string& subject) const {
  for (const Finding& finding : examine())
    if (finding.subject == subject) return finding;
  return {subject, Verdict::none, "there is no such line", {}};
}

}  // namespace lockstep::doctor

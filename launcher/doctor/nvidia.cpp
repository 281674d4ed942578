// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/nvidia.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <regex>
#include <string>
#include <vector>

#include "launcher/gpu_monitor/nvidia_abi.h"
#include "launcher/gpu_monitor/nvidia_library.h"

namespace lockstep::doctor {
namespace {

using namespace nvidia;

std::string status_name(const NvidiaLibrary& cuda, int status) {
  const char* name = nullptr;
  cuda.call("cuGetErrorName", status, &name);
  return name != nullptr ? name : fmt::format("CUDA error {}", status);
}

/// Display controllers (class 03) of vendor 10de.
int gpus_on_bus(const Environment& environment) {
  int count = 0;
  const std::string folder = "/sys/bus/pci/devices/";
  for (const std::string& device : environment.list(folder))
    count += environment.read_line(folder + device + "/vendor") == "0x10de" &&
             environment.read_line(folder + device + "/class").starts_with("0x03");
  return count;
}

std::string first_version(const std::string& text) {
  static const std::regex version("\\b(\\d{3,4}\\.\\d+(\\.\\d+)?)\\b");
  std::smatch found;
  return std::regex_search(text, found, version) ? found.str(1) : std::string();
}

std::vector<DeviceNode> open_nodes(const Environment& environment) {
  std::vector<DeviceNode> nodes;
  for (const std::string& name : environment.list("/dev")) {
    if (!name.starts_with("nvidia")) continue;
    const std::string rest = name.substr(6);
    const bool gpu = !rest.empty() && std::ranges::all_of(rest, [](unsigned char c) {
      return std::isdigit(c) != 0;
    });
    if (!gpu && rest != "ctl" && rest != "-uvm") continue;
    const std::string path = "/dev/" + name;
    nodes.push_back({path, environment.open_device(environment.root + path)});
  }
  return nodes;
}

std::vector<std::string> folders_with_library(const Environment& environment) {
  std::vector<std::string> found;
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu",
                             "/usr/lib/aarch64-linux-gnu",
                             "/usr/lib64",
                             "/usr/lib/wsl/lib",
                             "/usr/local/nvidia/lib64",
                             "/usr/lib/nvidia"})
    if (environment.exists(std::string(folder) + "/libcuda.so.1")) found.push_back(folder);
  return found;
}

Gpu read_gpu(const NvidiaLibrary& cuda, int ordinal) {
  Gpu gpu;
  gpu.ordinal = ordinal;
  int device = 0, major = 0, minor = 0;
  cuda.call("cuDeviceGet", &device, ordinal);
  char text[256] = {};
  if (cuda.call("cuDeviceGetName", static_cast<char*>(text), 255, device) == 0) gpu.name = text;
  cuda.call("cuDeviceGetAttribute", &major, kCapabilityMajor, device);
  cuda.call("cuDeviceGetAttribute", &minor, kCapabilityMinor, device);
  gpu.capability = 10 * major + minor;
  std::size_t bytes = 0;
  if (cuda.call("cuDeviceTotalMem_v2", &bytes, device) == 0) gpu.memory_bytes = bytes;
  char address[32] = {};
  if (cuda.call("cuDeviceGetPCIBusId", static_cast<char*>(address), 31, device) == 0)
    gpu.address = address;
  std::ranges::transform(
      gpu.address, gpu.address.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  gpu.part = (" " + gpu.name + " ").find(" MIG ") != std::string::npos;
  gpu.id = gpu.address;
  CudaId id;
  if (gpu.part && cuda.call("cuDeviceGetUuid_v2", &id, device) == 0)
    for (const unsigned char byte : id.bytes) gpu.id += fmt::format("{:02x}", byte);
  return gpu;
}

void read_peers(const NvidiaLibrary& cuda, std::vector<Gpu>& gpus) {
  for (Gpu& gpu : gpus)
    for (const Gpu& other : gpus) {
      int from = 0, to = 0, can = 0;
      cuda.call("cuDeviceGet", &from, gpu.ordinal);
      cuda.call("cuDeviceGet", &to, other.ordinal);
      if (gpu.ordinal != other.ordinal) cuda.call("cuDeviceCanAccessPeer", &can, from, to);
      gpu.peers.push_back(can != 0);
    }
}

void read_cuda(const Environment& environment, GpuFacts& facts) {
  const NvidiaLibrary cuda(environment.library_folder, "libcuda.so.1");
  facts.library = cuda.opened();
  if (!facts.library) {
    if (!cuda.missing()) facts.library_error = cuda.error();
    facts.library_elsewhere = folders_with_library(environment);
    return;
  }
  const std::string path = cuda.path();
  facts.library_version = first_version(path.substr(path.rfind('/') + 1));
  cuda.call("cuDriverGetVersion", &facts.cuda_version);
  int count = 0;
  facts.status = cuda.call("cuInit", 0u);
  if (facts.status == 0) facts.status = cuda.call("cuDeviceGetCount", &count);
  if (facts.status != 0) facts.status_name = status_name(cuda, facts.status);
  if (facts.status != 0) return;
  for (int i = 0; i < count; ++i) facts.gpus.push_back(read_gpu(cuda, i));
  read_peers(cuda, facts.gpus);
}

/// Of the GPUs that `facts` has already from CUDA.
void read_management(const Environment& environment, GpuFacts& facts) {
  const Nvml nvml(environment.library_folder);
  facts.management = nvml.error().empty();
  facts.management_status = nvml.status();
  if (!facts.management) return;
  facts.managed = nvml.count();
  std::vector<Nvml::Device> devices;
  for (Gpu& gpu : facts.gpus) {
    devices.push_back(nvml.find(gpu.address));
    gpu.managed = devices.back() != nullptr;
    if (gpu.managed) nvml.read_state(devices.back(), gpu.part, gpu);
    for (GpuUser& user : gpu.users)
      user.name = environment.read_line(fmt::format("/proc/{}/comm", user.process));
  }
  for (std::size_t i = 0; i < devices.size(); ++i)
    for (const Nvml::Device other : devices)
      facts.gpus[i].distance.push_back(nvml.distance(devices[i], other));
}

}  // namespace

GpuFacts read_gpus(const Environment& environment) {
  environment.begin("driver");
  GpuFacts facts;
  facts.on_bus = gpus_on_bus(environment);
  facts.module_version = first_version(environment.read("/proc/driver/nvidia/version"));
  facts.installed = int(environment.list("/proc/driver/nvidia/gpus").size());
  facts.nodes = open_nodes(environment);
  read_cuda(environment, facts);
  environment.begin("NVML");
  read_management(environment, facts);
  return facts;
}

std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string capability_text(int capability) {
  return fmt::format("{}.{}", capability / 10, capability % 10);
}

}  // namespace lockstep::doctor

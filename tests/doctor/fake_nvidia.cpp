// SPDX-License-Identifier: Apache-2.0
// Plays libcuda.so.1 and libnvidia-ml.so.1 on a machine faked in a folder: this library lies in its
// lib/, gpus.conf next to it says what the GPUs are ("cuda 13000", "gpu0.ecc_errors 3"), and as
// with the real ones nothing answers without the kernel's driver (../proc) and open device files
// (../dev). "gpu0.busy 90,95" says 90 at the first call and 95 from the second on; "hang FUNCTION"
// keeps that one from returning until the line is gone. nvidia_abi.cpp compares numbers and layouts
// with those of the real libraries.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <vector>

#include "launcher/gpu_monitor/nvidia_abi.h"

namespace {

using namespace lockstep::nvidia;

std::string folder() {
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(&folder), &info);
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/'));
}

std::map<std::string, std::string> settings() {
  std::map<std::string, std::string> result;
  std::ifstream file(folder() + "/gpus.conf");
  for (std::string line; std::getline(file, line);) {
    const std::size_t space = line.find(' ');
    if (space != std::string::npos) result[line.substr(0, space)] = line.substr(space + 1);
  }
  return result;
}

std::string text(const std::string& name) {
  const auto all = settings();
  const auto found = all.find(name);
  return found == all.end() ? std::string() : found->second;
}
bool has(const std::string& name) { return !text(name).empty(); }
std::uint64_t number(const std::string& name) {
  return std::strtoull(text(name).c_str(), nullptr, 10);
}
std::string key(long gpu, const char* name) { return "gpu" + std::to_string(gpu) + "." + name; }
int installed() { return int(number("gpus")); }

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

bool node_opens(const char* name) {
  const std::string path = folder() + "/../dev/" + name;
  struct stat facts {};
  return stat(path.c_str(), &facts) == 0 && (facts.st_mode & 06) == 06 &&
         first_line(path) != "denied by cgroup";
}

/// 0: the kernel's part is there and of this version; 1: there is none; 2: of another.
int kernel_state() {
  const std::string line = first_line(folder() + "/../proc/driver/nvidia/version");
  if (line.empty()) return 1;
  return line.find(text("version")) == std::string::npos ? 2 : 0;
}

bool nodes_open() {
  return node_opens("nvidiactl") && node_opens("nvidia-uvm") &&
         (node_opens("nvidia0") || node_opens("nvidia1"));
}

/// CUDA's own reading of CUDA_VISIBLE_DEVICES: it stops at the first entry that is wrong.
std::vector<int> visible() {
  std::vector<int> gpus;
  const char* const variable = std::getenv("CUDA_VISIBLE_DEVICES");
  if (variable == nullptr) {
    for (int i = 0; i < installed(); ++i) gpus.push_back(i);
    return gpus;
  }
  std::istringstream entries(variable);
  for (std::string entry; std::getline(entries, entry, ',');) {
    char* end = nullptr;
    const long gpu = std::strtol(entry.c_str(), &end, 10);
    if (end == entry.c_str() || gpu < 0 || gpu >= installed()) break;
    gpus.push_back(int(gpu));
  }
  return gpus;
}

constexpr int kOk = 0;

long index_of(void* device) { return long(reinterpret_cast<std::intptr_t>(device)) - 1; }

/// Of several, the one whose turn it is.
std::uint64_t next_number(const std::string& name) {
  // Never destroyed: a thread that was left in here may come back while the process ends.
  static std::mutex& mutex = *new std::mutex;
  static std::map<std::string, int>& calls = *new std::map<std::string, int>;
  std::istringstream values(text(name));
  std::string value, last;
  const std::lock_guard lock(mutex);
  for (int left = calls[name]++; left >= 0 && std::getline(values, value, ','); --left)
    last = value;
  return std::strtoull(last.c_str(), nullptr, 10);
}

template <typename T>
int give(void* device, const char* name, T* value) {
  const std::string full = key(index_of(device), name);
  if (!has(full)) return kNvmlNotSupported;
  *value = T(next_number(full));
  return kOk;
}

void hang_in(const char* function) {
  while (text("hang") == function) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

std::atomic<int> looks = 0;

}  // namespace

extern "C" {

int cuInit(unsigned) {
  if (has("init")) return int(number("init"));
  const int state = kernel_state();
  if (state == 2) return kCudaDriverMismatch;
  return state == 0 && nodes_open() && !visible().empty() ? kOk : kCudaNoDevice;
}
int cuDriverGetVersion(int* version) {
  *version = int(number("cuda"));
  return kOk;
}
int cuGetErrorName(int status, const char** name) {
  *name = status == kCudaNoDevice ? "CUDA_ERROR_NO_DEVICE"
          : status == 999         ? "CUDA_ERROR_UNKNOWN"
                                  : "CUDA_ERROR_OTHER";
  return kOk;
}
int cuDeviceGetCount(int* count) {
  *count = int(visible().size());
  return kOk;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = visible()[std::size_t(ordinal)];
  return kOk;
}
int cuDeviceGetName(char* name, int size, int device) {
  std::snprintf(name, std::size_t(size), "%s", text(key(device, "name")).c_str());
  return kOk;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  const int capability = int(number(key(device, "capability")));
  *value = attribute == kCapabilityMajor   ? capability / 10
           : attribute == kCapabilityMinor ? capability % 10
                                           : 0;
  return kOk;
}
int cuDeviceTotalMem_v2(std::size_t* bytes, int device) {
  *bytes = std::size_t(number(key(device, "memory")));
  return kOk;
}
int cuDeviceGetPCIBusId(char* address, int size, int device) {
  std::snprintf(address, std::size_t(size), "%s", text(key(device, "address")).c_str());
  return kOk;
}
int cuDeviceGetUuid_v2(CudaId* id, int device) {
  const std::string words = text(key(device, "uuid"));
  for (std::size_t i = 0; i < sizeof id->bytes; ++i)
    id->bytes[i] = i < words.size() ? (unsigned char)(words[i]) : 0;
  return kOk;
}
int cuDeviceCanAccessPeer(int* can, int, int) {
  *can = int(number("peers"));
  return kOk;
}

/// Not NVML's: how often use was asked for.
int fake_looks() { return looks; }

const char* nvmlErrorString(int status) {
  return status == 9 ? "Driver Not Loaded" : status == 6 ? "Not Found" : "Unknown Error";
}
int nvmlInit_v2() {
  hang_in("nvmlInit_v2");
  const int state = kernel_state();
  if (state == 1) return 9;
  if (state == 2) return kNvmlVersionMismatch;
  return nodes_open() ? kOk : 17;
}
int nvmlShutdown() {
  hang_in("nvmlShutdown");
  return kOk;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = unsigned(installed());
  return kOk;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device) {
  for (int i = 0; i < installed(); ++i)
    if (text(key(i, "address")) == address) {
      *device = reinterpret_cast<void*>(std::intptr_t(i + 1));
      return kOk;
    }
  return 6;
}
int nvmlDeviceGetUtilizationRates(void* device, NvmlUtilization* shares) {
  ++looks;
  hang_in("nvmlDeviceGetUtilizationRates");
  const int status = give(device, "busy", &shares->gpu);
  return status == kOk ? give(device, "bus_busy", &shares->memory) : status;
}
int nvmlDeviceGetMemoryInfo_v2(void* device, NvmlMemory2* memory) {
  if (memory->version != kNvmlMemory2) return 2;
  const int status = give(device, "reserved", &memory->reserved);
  memory->total = number(key(index_of(device), "memory"));
  memory->used = next_number(key(index_of(device), "used"));
  memory->free = memory->total - memory->reserved - memory->used;
  return status;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  return give(device, "power_usage", milliwatts);
}
int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* milliwatts) {
  return give(device, "power", milliwatts);
}
int nvmlDeviceGetClockInfo(void* device, int type, unsigned* mhz) {
  return give(device, type == kProcessorClock ? "clock_now" : "memory_clock_now", mhz);
}
int nvmlDeviceGetMaxClockInfo(void* device, int type, unsigned* mhz) {
  return give(device, type == kProcessorClock ? "full_clock" : "full_memory_clock", mhz);
}
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* celsius) {
  return sensor == kDieTemperature ? give(device, "temperature", celsius) : kNvmlNotSupported;
}
int nvmlDeviceGetMigMode(void* device, unsigned* now, unsigned* pending) {
  *pending = 0;
  return give(device, "mig", now);
}
int nvmlDeviceGetMemoryInfo(void* device, NvmlMemory* memory) {
  memory->total = number(key(index_of(device), "memory"));
  memory->used = number(key(index_of(device), "used"));
  memory->free = memory->total - memory->used;
  return kOk;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, NvmlProcess* processes) {
  const std::string process = key(index_of(device), "process");
  *count = has(process) ? 1 : 0;
  if (*count > 0)
    processes[0] = {unsigned(number(process)), number(key(index_of(device), "used")), 0, 0};
  return kOk;
}
int nvmlDeviceGetEccMode(void* device, int* now, int* pending) {
  *pending = 0;
  const std::string status = key(index_of(device), "ecc_status");
  return has(status) ? int(number(status)) : give(device, "ecc", now);
}
int nvmlDeviceGetTotalEccErrors(void* device, int type, int counter, unsigned long long* count) {
  return type == kUncorrected && counter == kSinceStart ? give(device, "ecc_errors", count)
                                                        : kNvmlNotSupported;
}
int nvmlDeviceGetRemappedRows(
    void* device, unsigned* corrected, unsigned* uncorrected, unsigned* pending, unsigned* failed) {
  *corrected = *uncorrected = 0;
  *pending = unsigned(number(key(index_of(device), "rows_pending")));
  *failed = unsigned(number(key(index_of(device), "rows_failed")));
  return kOk;
}
int nvmlDeviceGetComputeMode(void* device, int* mode) { return give(device, "mode", mode); }
// What drivers before the newer name have.
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  return give(device, "throttled", reasons);
}
int nvmlDeviceGetPowerManagementLimit(void* device, unsigned* limit) {
  return give(device, "power", limit);
}
int nvmlDeviceGetPowerManagementDefaultLimit(void* device, unsigned* limit) {
  return give(device, "full_power", limit);
}
int nvmlDeviceGetApplicationsClock(void* device, int type, unsigned* mhz) {
  return type == kProcessorClock ? give(device, "clock", mhz) : kNvmlNotSupported;
}
int nvmlDeviceGetDefaultApplicationsClock(void* device, int type, unsigned* mhz) {
  return type == kProcessorClock ? give(device, "full_clock", mhz) : kNvmlNotSupported;
}
int nvmlDeviceGetNvLinkState(void* device, unsigned link, int* up) {
  if (link >= number(key(index_of(device), "nvlinks"))) return 2;
  *up = link < number(key(index_of(device), "nvlinks_up"));
  return kOk;
}
int nvmlDeviceGetCurrPcieLinkWidth(void* device, unsigned* width) {
  return give(device, "width", width);
}
int nvmlDeviceGetMaxPcieLinkWidth(void* device, unsigned* width) {
  return give(device, "full_width", width);
}
int nvmlDeviceGetTopologyCommonAncestor(void*, void*, int* level) {
  *level = 30;
  return kOk;
}
}

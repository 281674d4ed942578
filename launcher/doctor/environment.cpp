// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/environment.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <string_view>

#include "launcher/processes/program_path.h"
#include "lockstep/error.h"

namespace lockstep::doctor {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::string Environment::read(const std::string& path) const {
  std::ifstream file(root + path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

std::string Environment::read_line(const std::string& path) const {
  const std::string text = read(path);
  const std::size_t first = text.find_first_not_of(" \n\t");
  if (first == std::string::npos) return {};
  const std::string line = text.substr(first, text.find('\n', first) - first);
  return line.substr(0, line.find_last_not_of(" \t\r") + 1);
}

bool Environment::exists(const std::string& path) const {
  std::error_code none;
  return fs::exists(root + path, none);
}

std::vector<std::string> Environment::list(const std::string& path) const {
  std::vector<std::string> names;
  std::error_code none;
  for (fs::directory_iterator entry(root + path, none), end; !none && entry != end;
       entry.increment(none))
    names.push_back(entry->path().filename());
  std::ranges::sort(names);
  return names;
}

std::string Environment::variable(const std::string& name) const {
  const auto found = variables.find(name);
  return found == variables.end() ? std::string() : found->second;
}

void Environment::begin(const std::string& subject) const {
  if (watch) watch->begin(subject);
}

void Environment::found(const Finding& finding) const {
  if (watch) watch->found(finding);
}

ToolResult Environment::run_tool(const std::vector<std::string>& command, double seconds) const {
  ToolResult result;
  std::vector<std::string> words = command;
  if (!words[0].starts_with('/')) words[0] = find_program(words[0], variables);
  if (words[0].empty()) return result;
  result.found = true;
  try {
    static_cast<ProgramOutput&>(result) = run_program(words, seconds);
  } catch (const Error& error) {
    result.exit_code = 127;
    result.output = error.what();
  }
  return result;
}

Container container_of(const Environment& environment) {
  Container docker{"Docker",
                   "start the container with: docker run --gpus all ...",
                   "docker run --shm-size=1g ...",
                   "docker run --ulimit memlock=-1 ..."};
  Container podman{"Podman",
                   "start the container with: podman run --device nvidia.com/gpu=all ...",
                   "podman run --shm-size=1g ...",
                   "podman run --ulimit memlock=-1 ..."};
  Container kubernetes{
      "Kubernetes",
      "ask for GPUs in the pod's spec: resources: {limits: {nvidia.com/gpu: 1}}",
      "mount an emptyDir of medium Memory at /dev/shm in the pod's spec",
      "raise LimitMEMLOCK of the node's container runtime: systemctl edit containerd"};
  Container apptainer{"Apptainer",
                      "start the container with: apptainer exec --nv ...",
                      "mount -o remount,size=1G /dev/shm (on the host)",
                      "ulimit -l unlimited (before apptainer exec)"};
  if (environment.has("KUBERNETES_SERVICE_HOST")) return kubernetes;
  if (environment.has("APPTAINER_CONTAINER") || environment.has("SINGULARITY_CONTAINER"))
    return apptainer;
  if (environment.exists("/run/.containerenv")) return podman;
  if (environment.exists("/.dockerenv")) return docker;
  const std::string groups = environment.read("/proc/1/cgroup");
  if (groups.find("kubepods") != std::string::npos) return kubernetes;
  if (groups.find("docker") != std::string::npos) return docker;
  return {};
}

std::string bytes_text(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  if (bytes == double(std::int64_t(bytes)) || bytes >= 100)
    return fmt::format("{:.0f} {}", bytes, kUnits[unit]);
  return fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

}  // namespace lockstep::doctor

// SPDX-License-Identifier: Apache-2.0
#include "launcher/idle_launcher.h"

#include <filesystem>
#include <fstream>
#include <string>

namespace lockstep {
namespace {

/// Neither gone nor waiting to be reaped.
bool lives(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  // "PID (name) state ...", where the name may hold anything.
  const std::size_t name_end = text.rfind(") ");
  return name_end != std::string::npos && name_end + 2 < text.size() && text[name_end + 2] != 'Z';
}

/// Of all threads of `pid`.
bool has_living_children(pid_t pid) {
  std::error_code error;
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  for (std::filesystem::directory_iterator task(tasks, error), end; !error && task != end;
       task.increment(error)) {
    std::ifstream file(task->path() / "children");
    for (pid_t child = 0; file >> child;)
      if (lives(child)) return true;
  }
  return false;
}

}  // namespace

bool IdleLauncher::hangs() {
  const auto now = Clock::now();
  if (now - looked_ < std::chrono::seconds(1)) return false;
  looked_ = now;
  if (has_living_children(launcher_)) {
    had_children_ = true;
    alive_ = now;
  }
  return had_children_ && std::chrono::duration<double>(now - alive_).count() >= kPatienceSeconds;
}

}  // namespace lockstep

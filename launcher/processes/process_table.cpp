// SPDX-License-Identifier: Apache-2.0
#include "launcher/processes/process_table.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/syscall.h>
#include <system_error>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

struct State {
  char letter = 'Z';  ///< 'Z': has ended
  pid_t parent = 0;
};

State state_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  State state;
  // "PID (name) state parent ...", where the name may hold anything.
  const std::size_t name_end = text.rfind(") ");
  if (name_end != std::string::npos)
    std::istringstream(text.substr(name_end + 2)) >> state.letter >> state.parent;
  return state;
}

}  // namespace

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> result;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const pid_t pid = pid_t(std::atol(entry->path().filename().c_str()));
    if (pid > 0 && state_of(pid).parent == parent) result.push_back(pid);
  }
  return result;
}

bool has_living_children(pid_t pid) {
  std::error_code error;
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  for (fs::directory_iterator task(tasks, error), end; !error && task != end;
       task.increment(error)) {
    std::ifstream file(task->path() / "children");
    for (pid_t child = 0; file >> child;)
      if (state_of(child).letter != 'Z') return true;
  }
  return false;
}

bool waits_for_lock(pid_t pid) {
  // The number of the system call that a sleeping thread is in; "running" otherwise.
  std::ifstream file("/proc/" + std::to_string(pid) + "/syscall");
  long number = -1;
  return file >> number && number == SYS_futex;
}

}  // namespace lockstep

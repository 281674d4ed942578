// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/slurm_nodes.h"

#include <chrono>
#include <numeric>
#include <optional>
#include <poll.h>
#include <regex>
#include <sstream>

#include "launcher/processes/program_output.h"
#include "launcher/processes/program_path.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

/// The lines that one of Slurm's tools prints; empty where it is not there, or fails.
std::vector<std::string> output_lines(std::vector<std::string> command,
                                      const VariableMap& variables) {
  constexpr double kSeconds = 10;
  std::vector<std::string> lines;
  command[0] = find_program(command[0], variables);
  if (command[0].empty()) return lines;
  try {
    const ProgramOutput answer = run_program(command, kSeconds);
    if (answer.timed_out || answer.exit_code != 0) return lines;
    std::istringstream text(answer.output);
    for (std::string line; std::getline(text, line);) lines.push_back(line);
  } catch (const EnvironmentError&) {
    lines.clear();
  }
  return lines;
}

/// Of "n[1-3,7]", which only Slurm's own tool reads as Slurm does.
std::vector<std::string> expand_node_list(const std::string& list, const VariableMap& variables) {
  return output_lines({"scontrol", "show", "hostnames", list}, variables);
}

}  // namespace

std::vector<int> tasks_by_node(const std::string& tasks_per_node) {
  static const std::regex kPart("(\\d{1,6})(?:\\(x(\\d{1,6})\\))?");
  std::istringstream parts(tasks_per_node);
  std::vector<int> tasks;
  for (std::string part; std::getline(parts, part, ',');) {
    std::smatch found;
    if (!std::regex_match(part, found, kPart)) return {};
    const std::size_t nodes = found[2].matched ? std::stoul(found.str(2)) : 1;
    tasks.insert(tasks.end(), nodes, std::stoi(found.str(1)));
  }
  return tasks;
}

int allocated_tasks(const std::string& tasks_per_node) {
  const std::vector<int> tasks = tasks_by_node(tasks_per_node);
  return std::accumulate(tasks.begin(), tasks.end(), 0);
}

std::vector<Host> allocated_nodes(const VariableMap& variables) {
  const auto list = variables.find("SLURM_JOB_NODELIST");
  const auto per_node = variables.find("SLURM_TASKS_PER_NODE");
  if (list == variables.end() || per_node == variables.end()) return {};
  const std::vector<int> tasks = tasks_by_node(per_node->second);
  if (tasks.size() < 2) return {};
  const std::vector<std::string> names = expand_node_list(list->second, variables);
  if (names.size() != tasks.size()) return {};
  std::vector<Host> nodes;
  for (std::size_t i = 0; i < names.size(); ++i)
    nodes.push_back({.name = names[i], .slots = tasks[i]});
  return nodes;
}

NodesBefore nodes_before_start(const std::vector<Host>& nodes, const VariableMap& variables) {
  const auto job = variables.find("SLURM_JOB_ID");
  if (nodes.empty() || job == variables.end()) return {};
  const std::string of_job = "--jobs=" + job->second;
  NodesBefore before;
  // %A is the number that a task of an array has of its own; those of others may be listed.
  const std::string own = job->second + "|";
  for (const std::string& line :
       output_lines({"squeue", "--noheader", of_job, "--format=%A|%N"}, variables)) {
    if (!line.starts_with(own) || line.size() == own.size()) continue;
    const std::size_t left = expand_node_list(line.substr(own.size()), variables).size();
    before.some_are_gone = left > 0 && left < nodes.size();
  }
  // "12.0|lockstep", of an array "12_3.0|lockstep"; "12.batch" is not one of srun's.
  static const std::regex kStep("[^|]*\\.\\d+(\\+\\d+)?\\|lockstep.*");
  for (const std::string& line :
       output_lines({"squeue", "--noheader", "--steps", of_job, "--format=%i|%j"}, variables))
    before.has_steps |= std::regex_match(line, kStep);
  return before;
}

std::vector<Host> answering_nodes(const std::vector<Host>& nodes,
                                  const ProbeProgram& srun,
                                  const std::function<bool()>& gives_up) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kLonger{5000}, kForEachNode{20};
  std::vector<HostProbe> probes;
  probes.reserve(nodes.size());
  for (const Host& node : nodes) probes.emplace_back(node.name, srun);
  std::optional<Clock::time_point> give_up;
  std::vector<Host> answering;
  for (bool waits = true; waits;) {
    waits = false;
    answering.clear();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const std::optional<bool> answer = probes[i].answer();
      waits |= !answer;
      if (answer.value_or(false)) answering.push_back(nodes[i]);
    }
    if (!answering.empty() && !give_up)
      give_up = Clock::now() + kLonger + int(nodes.size()) * kForEachNode;
    waits &= !give_up || Clock::now() < *give_up;
    if (gives_up && gives_up()) return nodes;
    if (waits) poll(nullptr, 0, 10);
  }
  return answering.empty() ? nodes : answering;
}

}  // namespace lockstep

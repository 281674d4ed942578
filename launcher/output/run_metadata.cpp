// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/run_metadata.h"

#include <ctime>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/exec/backend.h"
#include "core/host/machine.h"
#include "core/io/run_log.h"
#include "launcher/processes/host_facts.h"
#include "launcher/processes/shell_text.h"
#include "lockstep/job.h"

namespace lockstep {
namespace {

std::string command_line(const TrainRequest& settings) {
  std::string command = "lockstep train";
  for (const std::string& argument : settings.arguments) command += " " + for_shell(argument);
  return command;
}

}  // namespace

std::string environment_json(Job& job,
                             const TrainRequest& settings,
                             const std::string& micro_batch_note) {
  const HostFacts facts = host_facts();
  return json_object({{"lockstep", facts.version},
                      {"commit", facts.commit},
                      {"command", command_line(settings)},
                      {"host", facts.host},
                      {"os", facts.os},
                      {"kernel", facts.kernel},
                      {"cpu", facts.cpu},
                      {"host_cpus", std::int64_t(facts.host_cpus)},
                      {"ranks", std::int64_t(job.size())},
                      {"rank_source", job.source()},
                      {"device", job.backend().device_class()},
                      {"micro_batch_choice", micro_batch_note},
                      {"compiler", facts.compiler},
                      {"build_type", facts.build_type},
                      {"fmt", std::int64_t(FMT_VERSION)}},
                     2);
}

std::string history_json(Job& job, const TrainRequest& settings, const ResumeRecord* resumed) {
  const ResumeRecord none, &from = resumed ? *resumed : none;
  return json_object({{"time", std::int64_t(std::time(nullptr))},
                      {"step", from.step},
                      {"checkpoint", from.path},
                      {"passed_over", fmt::format("{}", fmt::join(from.skipped_checkpoints, "; "))},
                      {"overridden", fmt::format("{}", fmt::join(from.overridden, "; "))},
                      {"ranks", std::int64_t(job.size())},
                      {"host", host_name()},
                      {"lockstep", lockstep_version()},
                      {"command", command_line(settings)}});
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "launcher/scale/scale_runs.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>

#include "core/base/check.h"
#include "core/base/descriptor.h"
#include "launcher/launch/auto_launch.h"
#include "launcher/launch/launch_site.h"
#include "launcher/launch/launcher_output_parser.h"
#include "launcher/launch/shm_backing_dir.h"
#include "launcher/launch/supervisor.h"
#include "launcher/processes/program_path.h"
#include "parallel/session/rank_discovery.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// From the wish to stop until a run is killed: it is not going to be counted.
constexpr double kGraceSeconds = 5;

std::string shell_command(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + shell_word(word);
  return text;
}

/// Ends the job whose number sbatch has written, or says that people have to.
void cancel_job(const std::string& number_file, int ranks, SupervisorOutput& output) {
  std::ifstream stream(number_file);
  std::string number;
  std::getline(stream, number);
  number = number.substr(0, number.find(';'));
  if (number.empty()) {
    output.err().line(
        fmt::format("warning: sbatch was stopped before it reported a job's id: "
                    "scancel --me --name lockstep-scale-{} ends one that it submitted",
                    ranks));
    return;
  }
  const std::string scancel = find_program("scancel", process_variables());
  if (!scancel.empty()) {
    SupervisorSignals unasked;
    ChildPlan child;
    child.command = {scancel, number};
    child.grace_s = kGraceSeconds;
    if (supervise(child, unasked, output).exit_code == 0) return;
  }
  output.err().line(fmt::format("warning: job {0} was not cancelled: scancel {0}", number));
}

/// What the child says goes into `log`, through this process, which looks for errors of ranks in
/// it.
Ending supervise_into(const std::string& log,
                      const ChildPlan& child,
                      SupervisorSignals& signals,
                      SupervisorOutput& screen) {
  const Descriptor file(
      open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
  LOCKSTEP_CHECK(file.valid(), EnvironmentError, "{}: {}", log, std::strerror(errno));
  SupervisorOutput output(file.get(), log, screen.err());
  return supervise(child, signals, output);
}

}  // namespace

std::string shell_word(const std::string& text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::string job_script(int ranks, const std::vector<std::string>& words, const std::string& log) {
  return fmt::format(
      "#!/bin/sh\n"
      "#SBATCH --job-name=lockstep-scale-{0}\n"
      "#SBATCH --ntasks={0}\n"
      "#SBATCH --output=/dev/null\n"
      "exec {1} >{2} 2>&1\n",
      ranks,
      shell_command(words),
      shell_word(log));
}

ScaleRuns::ScaleRuns(const ScaleFlags& flags) : flags_(flags), site_(launch_site(flags.run)) {
  if (flags.sbatch) {
    sbatch_ = find_program("sbatch", process_variables());
    LOCKSTEP_CHECK(!sbatch_.empty() && !site_.srun.empty(),
                   EnvironmentError,
                   "--launcher sbatch: sbatch or srun is not in PATH");
    launcher_ = Launcher::srun;
  } else {
    launcher_ = choose_launcher(flags.run, site_, flags.ranks.back());
  }
}

std::string ScaleRuns::launcher_name() const {
  return flags_.sbatch ? "sbatch" : name_of(launcher_);
}

std::vector<std::string> ScaleRuns::command(const Experiment& experiment,
                                            const std::string& folder,
                                            const std::string& log) const {
  std::vector<std::string> arguments = train_arguments(flags_, experiment, folder);
  if (launcher_ == Launcher::none) arguments.insert(arguments.end(), {"--ranks", "1"});
  const std::vector<std::string> words =
      launch_command(launcher_, experiment.ranks, site_, arguments, {});
  if (!flags_.sbatch) return words;
  const std::string script = log + ".sbatch";
  std::ofstream stream(script);
  stream << job_script(experiment.ranks, words, fs::absolute(log).string());
  stream.close();
  LOCKSTEP_CHECK(stream.good(), EnvironmentError, "{}: cannot be written", script);
  return {"/bin/sh",
          "-c",
          fmt::format("exec {} --parsable --wait {} >{}",
                      shell_word(sbatch_),
                      shell_word(script),
                      shell_word(log + ".job"))};
}

std::string ScaleRuns::start(const Experiment& experiment,
                             const std::string& folder,
                             const std::string& log,
                             SupervisorSignals& signals,
                             SupervisorOutput& output) const {
  ChildPlan child = flags_.sbatch ? ChildPlan{} : plan_child(launcher_, site_);
  child.command = command(experiment, folder, log);
  child.grace_s = kGraceSeconds;
  child.labelled = launcher_ == Launcher::srun && !flags_.sbatch;
  if (launcher_ != Launcher::none) child.variables["LOCKSTEP_STARTED"] = "plain";
  std::optional<ShmBackingDir> segments;
  if (child.ranks_are_children) segments.emplace(child);
  const Ending ending = flags_.sbatch ? supervise(child, signals, output)
                                      : supervise_into(log, child, signals, output);
  if (flags_.sbatch && ending.stop_requested) cancel_job(log + ".job", experiment.ranks, output);
  if (ending.exit_code == 0) return {};
  const std::string why = last_error_in(log);
  return fmt::format("{} ranks, {}: exit code {}{}{}; see {}",
                     experiment.ranks,
                     name_of(experiment.mode),
                     ending.exit_code,
                     why.empty() ? "" : ": ",
                     why,
                     log);
}

}  // namespace lockstep

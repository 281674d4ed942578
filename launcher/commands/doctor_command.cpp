// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "core/base/text/number_format.h"
#include "core/exec/communicator.h"
#include "core/exec/gather_records.h"
#include "core/host/machine.h"
#include "launcher/commands/commands.h"
#include "launcher/doctor/examine.h"
#include "launcher/doctor/place.h"
#include "launcher/doctor/report.h"
#include "launcher/launch/shm_backing_dir.h"
#include "launcher/output/snapshot_folder.h"
#include "launcher/processes/shell_text.h"
#include "launcher/settings/command_line.h"
#include "launcher/settings/flag_values.h"
#include "lockstep/error.h"
#include "lockstep/job.h"
#include "parallel/comm/collective_strings.h"
#include "parallel/session/job_internals.h"
#include "parallel/session/rank_discovery.h"

namespace lockstep {
namespace {

/// One subject's time, far more than any takes that answers.
constexpr std::chrono::seconds kLimit(60);
constexpr int kAnswering = 2;  // ranks that check_mpi() starts

struct DoctorFlags {
  std::string device = "auto";
  std::string out = "runs";
  std::string ranks = "1";
  bool json = false;
  bool clean = false;
  bool answer = false;
};

void declare(CLI::App& app, DoctorFlags& flags) {
  app.add_flag("--json", flags.json, "prints one JSON object instead of lines");
  app.add_option("--device", flags.device, "what a run would use; cuda: a missing GPU is a failure")
      ->type_name("auto|cpu|cuda")
      ->capture_default_str()
      ->check(one_of("--device", {"auto", "cpu", "cuda"}));
  app.add_option("--ranks", flags.ranks, "how many a run on this host would have")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number("--ranks", 1, 1 << 20));
  app.add_option("--out", flags.out, "the folder that a run would write to")
      ->type_name("DIR")
      ->capture_default_str();
  app.add_flag("--clean",
               flags.clean,
               "removes what runs that are gone have left in /dev/shm, names what it keeps, and "
               "checks nothing");
  // A rank that the doctor itself starts, to see whether MPI connects it.
  app.add_flag("--answer", flags.answer)->group("");
}

/// Removes from /dev/shm what no run can use, and says of the rest what it is.
int clean() {
  using Run = LeftSnapshots::Run;
  bool found = false;
  for (const std::string& path : remove_abandoned_segments()) {
    fmt::print("removed  {}: shared memory of ranks that are gone\n", path);
    found = true;
  }
  for (const LeftSnapshots& left : left_snapshots()) {
    found = true;
    const std::string what =
        fmt::format("{}: snapshots of {}{}, {}",
                    left.folder.string(),
                    left.out.empty() ? "an unknown run" : left.out.string(),
                    left.step < 0 ? "" : fmt::format(" up to step {}", left.step),
                    format_bytes(double(left.bytes)));
    if (left.run == Run::gone && remove_left(left)) {
      fmt::print("removed  {}; the run is gone\n", what);
      continue;
    }
    fmt::print("kept     {}; {}\n         or give them up: rm -r {}\n",
               what,
               left.run == Run::ended
                   ? fmt::format("the next lockstep run with --out {} takes them over",
                                 for_shell(left.out.string()))
                   : std::string("what has become of the run cannot be told: is its disk mounted?"),
               left.folder.string());
  }
  if (!found) fmt::print("nothing to remove in /dev/shm\n");
  return 0;
}

void find_place(Communicator& ranks,
                doctor::Environment& environment,
                const doctor::GpuFacts& facts) {
  resolve(environment, gather_records(ranks, place_of(environment, facts)), ranks.rank());
}

std::vector<doctor::RankReport> gather_reports(Communicator& ranks, const doctor::RankReport& own) {
  std::vector<doctor::RankReport> reports;
  for (const std::string& message : gather_strings(ranks, to_message(own)))
    reports.push_back(doctor::from_message(message));
  return reports;
}

void print(const doctor::Report& report, bool json) {
  if (json)
    std::cout << to_json(report).dump(
        2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  else
    std::cout << to_text(report);
  std::cout << (json ? "\n" : "") << std::flush;
}

/// Where something hangs the process says what it has found and ends: it can do no more.
void watch(doctor::Environment& environment, bool json, int rank) {
  environment.watch = std::make_shared<doctor::Watch>(kLimit, [json, rank](doctor::Findings found) {
    if (rank >= 0)
      found.back().text = fmt::format("rank {} on {}: {}", rank, host_name(), found.back().text);
    print(doctor::merge({{std::max(rank, 0), host_name(), std::move(found)}}), json);
    _exit(int(ExitCode::environment));
  });
}

doctor::GpuFacts look_at_gpus(const doctor::Environment& environment) {
  return environment.device == "cpu" ? doctor::GpuFacts{} : read_gpus(environment);
}

/// One rank's view, where MPI does not connect it to others.
int examine_alone(doctor::Environment& environment,
                  bool json,
                  const std::optional<doctor::Finding>& mpi) {
  watch(environment, json, -1);
  doctor::Findings findings = examine(environment, look_at_gpus(environment));
  environment.watch->stop();
  for (doctor::Finding& finding : findings)
    if (mpi && finding.subject == mpi->subject) finding = *mpi;
  const doctor::Report report = doctor::merge({{0, host_name(), std::move(findings)}});
  print(report, json);
  return int(exit_code(report));
}

int examine_together(Job& job, doctor::Environment& environment, bool json) {
  Communicator& ranks = JobInternals::of(job).plain;
  watch(environment, json, ranks.rank());
  // Before anybody computes: contexts of other ranks would count as memory of others.
  const doctor::GpuFacts facts = look_at_gpus(environment);
  environment.watch->pause();
  find_place(ranks, environment, facts);
  environment.mpi_runs = true;
  doctor::Findings findings = examine(environment, facts);
  environment.watch->stop();
  const doctor::Report report =
      doctor::merge(gather_reports(ranks, {ranks.rank(), host_name(), std::move(findings)}));
  if (ranks.rank() == 0) print(report, json);
  ranks.barrier();  // mpirun may end the others' output with the first that leaves
  return int(exit_code(report));
}

/// Of a rank that the doctor started: whether it is connected with the other.
int answer(std::optional<Job>& job) {
  if (!job || JobInternals::of(*job).plain.size() != kAnswering) return int(ExitCode::environment);
  JobInternals::of(*job).plain.barrier();
  return 0;
}

}  // namespace

int doctor_command(const std::vector<std::string>& arguments) {
  CLI::App app("Checks this machine as a run would find it, and says how to repair what fails.",
               "lockstep doctor");
  DoctorFlags flags;
  declare(app, flags);
  if (print_help(parse_command_line(app, arguments))) return 0;
  if (flags.clean) return clean();
  doctor::Environment environment = doctor::this_machine();
  environment.device = flags.device;
  environment.out = flags.out;
  environment.ranks = environment.ranks_here = int(to_whole_number(flags.ranks));
  std::optional<Job> job;
  try {
    if (discover_rank(environment.variables).size != 1) job.emplace(0, nullptr);
  } catch (const EnvironmentError& error) {
    if (flags.answer || launched_rank(environment.variables) > 0) throw;
    const std::string remedy = error.hint().empty() ? "mpirun -np 2 lockstep doctor" : error.hint();
    return examine_alone(environment, flags.json, doctor::fail("MPI", error.what(), remedy));
  }
  if (flags.answer) return answer(job);
  return job ? examine_together(*job, environment, flags.json)
             : examine_alone(environment, flags.json, std::nullopt);
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <optional>

#include "core/base/error.h"
#include "launcher/doctor/examine.h"
#include "launcher/doctor/host.h"
#include "launcher/doctor/report.h"
#include "launcher/flag_values.h"
#include "launcher/host_facts.h"
#include "launcher/job.h"
#include "launcher/rank_discovery.h"

namespace lockstep {
namespace {

using namespace doctor;

struct DoctorFlags {
  std::string device = "auto";
  std::string out = "runs";
  std::string ranks = "1";
  bool json = false;
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
  // A rank that the doctor itself starts, to see whether MPI connects it.
  app.add_flag("--answer", flags.answer)->group("");
}

/// What every rank tells the others before it looks.
struct Place {
  char host[64] = {};
  char threads[256] = {};  ///< that it may use, as a list
};

template <std::size_t N>
void fill(char (&to)[N], const std::string& text) {
  std::copy_n(text.begin(), std::min(text.size(), N - 1), to);
}

void find_place(Communicator& ranks, Environment& environment) {
  Place own;
  fill(own.host, host_name());
  fill(own.threads, list_text(allowed_threads(environment)));
  std::vector<Place> places(std::size_t(ranks.size()));
  ranks.all_gather(&own, places.data(), sizeof own);
  environment.ranks = ranks.size();
  environment.ranks_here = environment.local_rank = 0;
  std::vector<int> threads;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const Place& place = places[std::size_t(rank)];
    if (std::string_view(place.host) != own.host) continue;
    environment.local_rank += rank < ranks.rank();
    ++environment.ranks_here;
    const std::vector<int> more = parse_list(place.threads);
    threads.insert(threads.end(), more.begin(), more.end());
  }
  environment.cores_here = usable_cores(environment, threads);
}

std::vector<RankReport> gather(Communicator& ranks, const RankReport& own) {
  const std::string message = to_message(own);
  const std::size_t bytes = message.size();
  std::vector<std::size_t> sizes(std::size_t(ranks.size()));
  ranks.all_gather(&bytes, sizes.data(), sizeof bytes);
  std::size_t total = 0;
  for (const std::size_t size : sizes) total += size;
  std::string all(total, ' ');
  ranks.all_gather_v(message.data(), all.data(), sizes);
  std::vector<RankReport> reports;
  std::size_t offset = 0;
  for (const std::size_t size : sizes) {
    reports.push_back(from_message(all.substr(offset, size)));
    offset += size;
  }
  return reports;
}

void print(const Report& report, bool json) {
  if (json)
    std::cout << to_json(report).dump(
        2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  else
    std::cout << to_text(report);
  std::cout << (json ? "\n" : "") << std::flush;
}

/// One rank's view, where MPI does not connect it to others.
int examine_alone(const Environment& environment, bool json, const std::optional<Finding>& mpi) {
  const GpuFacts facts = environment.device == "cpu" ? GpuFacts{} : read_gpus(environment);
  Findings findings = examine(environment, facts);
  for (Finding& finding : findings)
    if (mpi && finding.subject == mpi->subject) finding = *mpi;
  const Report report = merge({{0, host_name(), std::move(findings)}});
  print(report, json);
  return int(exit_code(report));
}

int examine_together(Job& job, Environment& environment, bool json) {
  Communicator& ranks = job.plain_communicator();
  find_place(ranks, environment);
  environment.mpi_runs = true;
  const GpuFacts facts = environment.device == "cpu" ? GpuFacts{} : read_gpus(environment);
  ranks.barrier();  // contexts of other ranks would count as memory of others
  const Report report =
      merge(gather(ranks, {ranks.rank(), host_name(), examine(environment, facts)}));
  if (ranks.rank() == 0) print(report, json);
  ranks.barrier();  // mpirun may end the others' output with the first that leaves
  return int(exit_code(report));
}

}  // namespace

int doctor_command(const std::vector<std::string>& arguments) {
  CLI::App app("Looks at this machine as a run would find it, and says what to do about the rest.",
               "lockstep doctor");
  DoctorFlags flags;
  declare(app, flags);
  for (CLI::Option* option : app.get_options()) option->take_last();
  try {
    // CLI11 wants them last first.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help() << std::flush;
    return 0;
  } catch (const CLI::Error& error) {
    throw ConfigError(std::string("doctor: ") + error.what(),
                      "lockstep doctor --help lists all flags");
  }
  Environment environment = this_machine();
  environment.device = flags.device;
  environment.out = flags.out;
  environment.ranks = environment.ranks_here = int(to_whole_number(flags.ranks));
  std::optional<Job> job;
  try {
    if (discover_rank(environment.variables).size != 1) job.emplace(0, nullptr);
  } catch (const EnvironmentError& error) {
    if (flags.answer || launched_rank(environment.variables) > 0) throw;
    return examine_alone(environment, flags.json, fail("MPI", error.what(), error.hint()));
  }
  if (flags.answer) {
    if (job) job->plain_communicator().barrier();
    return 0;
  }
  return job ? examine_together(*job, environment, flags.json)
             : examine_alone(environment, flags.json, std::nullopt);
}

}  // namespace lockstep

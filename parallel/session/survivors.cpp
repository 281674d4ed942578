// SPDX-License-Identifier: Apache-2.0
#include "parallel/session/survivors.h"

#include <charconv>
#include <chrono>
#include <fmt/format.h>
#include <string>
#include <unistd.h>

#include "core/base/check.h"
#include "core/base/env.h"
#include "core/base/exit_deadline.h"
#include "parallel/comm/mpi_session.h"
#include "parallel/comm/nccl/nccl_communicator.h"
#include "parallel/session/error_report.h"
#include "parallel/session/job_internals.h"
#include "parallel/watchdog/watchdog.h"

namespace lockstep {
namespace {

/// For a rank to come to its next message, and for what the watchdogs take.
constexpr double kToNoticeSeconds = 30, kForRecordSeconds = 1, kToReportSeconds = 2;
/// From then on, in which a checkpoint may have to be written to its end.
constexpr std::chrono::seconds kToShrink{30};

}  // namespace

std::optional<SurvivorTerms> survivor_terms() {
  if (!env().survivors || !MpiSession::has_ulfm()) return std::nullopt;
  const std::string& text = *env().survivors;
  SurvivorTerms terms;
  const char* const end = text.data() + text.size();
  const auto min = std::from_chars(text.data(), end, terms.min_ranks);
  const bool both = min.ec == std::errc() && min.ptr != end && *min.ptr == ':';
  const auto restarts = both ? std::from_chars(min.ptr + 1, end, terms.restarts) : min;
  LOCKSTEP_CHECK(both && restarts.ec == std::errc() && restarts.ptr == end && terms.min_ranks > 0,
                 ConfigError,
                 "LOCKSTEP_SURVIVORS is '{}': expected ranks:restarts, as lockstep run sets it",
                 text);
  return terms;
}

void outlive_deaths(Job& job) {
  const JobInternals inside = JobInternals::of(job);
  const auto terms = survivor_terms();
  if (!terms || job.size() <= terms->min_ranks || !inside.watchdog.blindness().empty()) return;
  MpiSession::let_ranks_outlive(true);
  inside.watchdog.outlive_deaths(kToNoticeSeconds,
                                 [] { fail_nccl_communicators("another rank has died"); });
}

void end_with_deaths(Job& job) {
  MpiSession::let_ranks_outlive(false);
  JobInternals::of(job).watchdog.outlive_deaths(0);
}

std::optional<RankDeath> outlived_death(Job& job, bool can_continue) {
  if (!MpiSession::lost_rank()) return std::nullopt;
  Watchdog& watchdog = JobInternals::of(job).watchdog;
  auto record = watchdog.await_death(kForRecordSeconds);
  if (!record) return std::nullopt;
  if (!can_continue) watchdog.await_report(kToReportSeconds);
  return RankDeath{.record = std::move(*record),
                   .step = job.position().read().step,
                   .ranks = job.size(),
                   .can_continue = can_continue};
}

int shrink_to_survivors(const RankDeath& death, const std::function<bool(int)>& fits) {
  const int exit_code = death.record.exit_code;
  const ExitDeadline deadline(kToShrink, exit_code);
  if (!deadline.is_set()) _exit(exit_code);
  try {
    if (nccl_abort_hangs()) _exit(exit_code);
    const bool all_can = MpiSession::shrink(death.can_continue);
    const MpiSession::Place place = MpiSession::place_after_shrink().value();
    if (!all_can || place.size < survivor_terms().value().min_ranks || !fits(place.size))
      _exit(exit_code);
    if (place.rank == 0)
      print_warning(fmt::format("{} of {} ranks are left, and continue", place.size, death.ranks),
                    0);
    return place.size;
  } catch (const Error& error) {
    print_warning(error.what(), death.record.seen_by);
    _exit(exit_code);
  }
}

}  // namespace lockstep

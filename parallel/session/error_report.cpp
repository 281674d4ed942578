// SPDX-License-Identifier: Apache-2.0
#include "parallel/session/error_report.h"

#include <chrono>
#include <fmt/format.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "core/base/text/printable.h"
#include "core/host/machine.h"
#include "lockstep/error.h"
#include "parallel/comm/dead_rank_error.h"
#include "parallel/comm/exception_text.h"
#include "parallel/session/explained_out_of_memory.h"
#include "parallel/session/fault_log.h"
#include "parallel/session/rank_discovery.h"

namespace lockstep {
namespace {

constexpr std::chrono::seconds kLauncherEndsOthers{3};

}  // namespace

ErrorReport describe(const std::exception_ptr& error) {
  ExceptionText text = text_of(error);
  ErrorReport report{std::move(text.message), std::move(text.hint), int(text.code)};
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    if (const auto* const faulting_rank = dynamic_cast<const FaultingRank*>(&e))
      report.faulting_rank = *faulting_rank;
    if (dynamic_cast<const DeadRankError*>(&e) != nullptr)
      report.exit_code = int(ExitCode::collective_timeout);
    if (const auto* const explained = dynamic_cast<const ExplainedOutOfMemory*>(&e))
      report.details = explained->details();
  } catch (...) {
    return report;
  }
  return report;
}

FaultRecord to_record(const ErrorReport& error, int rank, const PositionNote& position) {
  FaultRecord record;
  const bool began = position.step > 0 || position.phase != Phase::none;
  if (began) set_position(record, position);
  record.process = getpid();
  record.rank = rank;
  record.host = host_name();
  record.cause = error.message;
  record.hint = error.hint;
  record.details = error.details;
  record.exit_code = error.exit_code;
  const FaultingRank& faulting_rank = error.faulting_rank;
  if (faulting_rank.rank < 0) return record;
  if (faulting_rank.rank != rank) {
    record.process = 0;
    record.seen_by = rank;
  }
  record.rank = faulting_rank.rank;
  record.host = faulting_rank.host;
  if (faulting_rank.step > 0) record.step = faulting_rank.step;
  return record;
}

void print_error(const ErrorReport& report, int rank) {
  write_to_screen(to_block(to_record(report, rank, {})));
}

void print_warning(const std::string& message, int rank) {
  write_to_screen(
      fmt::format("[rank {} {}] warning: {}\n", rank, host_name(), printable_lines(message)));
}

int report_alone(const std::exception_ptr& error) {
  const ErrorReport report = describe(error);
  const int rank = launched_rank(process_variables());
  if (rank > 0) std::this_thread::sleep_for(kLauncherEndsOthers);
  print_error(report, rank);
  return report.exit_code;
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "parallel/session/error_report.h"

#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <new>
#include <thread>
#include <unistd.h>

#include "core/base/file_kind.h"
#include "core/base/parameter_names.h"
#include "core/base/printable.h"
#include "core/host/machine.h"
#include "lockstep/error.h"
#include "parallel/session/explained_out_of_memory.h"
#include "parallel/session/failed_allocation.h"
#include "parallel/session/fault_log.h"
#include "parallel/session/rank_discovery.h"

namespace lockstep {
namespace {

constexpr std::chrono::seconds kLauncherEndsOthers{3};

}  // namespace

ErrorReport describe(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    const auto* const faulting_rank = dynamic_cast<const FaultingRank*>(&e);
    const auto* const explained = dynamic_cast<const ExplainedOutOfMemory*>(&e);
    return {e.what(),
            e.hint(),
            int(e.exit_code()),
            faulting_rank ? *faulting_rank : FaultingRank{},
            explained ? explained->details() : std::string()};
  } catch (const std::bad_alloc&) {
    // The numbers in the hint: ranks that meet the same error in other numbers say it once.
    return {"out of memory on the host",
            name_parameters("use a smaller `micro_batch` or fewer ranks a host") +
                failed_allocation_text(),
            4};
  } catch (const std::filesystem::filesystem_error& e) {
    return {e.path1().empty() ? std::string(e.what())
                              : fmt::format("{}: {}", e.path1().string(), e.code().message()),
            read_hint(e.code().value()),
            int(ExitCode::environment)};
  } catch (const std::exception& e) {
    return {e.what(), {}, 1};
  } catch (...) {
    return {"unknown exception", "please report this", 1};
  }
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

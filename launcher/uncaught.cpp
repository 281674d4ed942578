// SPDX-License-Identifier: Apache-2.0
#include "launcher/uncaught.h"

#include <atomic>
#include <exception>
#include <string_view>
#include <unistd.h>

#include "core/base/error.h"
#include "launcher/error_meeting.h"
#include "launcher/rank_discovery.h"

namespace lockstep {
namespace {

constexpr std::string_view kNoMemoryToSayMore =
    "error: out of memory on the host\n"
    "hint: use a smaller --micro-batch or fewer ranks a host\n";

}  // namespace

void report_uncaught() noexcept {
  static std::atomic<bool> entered{false};
  if (entered.exchange(true)) {  // by another thread, or because saying it failed as well
    if (::write(STDERR_FILENO, kNoMemoryToSayMore.data(), kNoMemoryToSayMore.size()) < 0) _exit(4);
    _exit(int(ExitCode::out_of_memory));
  }
  const std::exception_ptr error = std::current_exception();
  ErrorReport report{"the program ended itself without an exception", "please report this", 1};
  if (error) report = describe(error);
  print_error(report, launched_rank(process_variables()));
  _exit(report.exit_code);
}

}  // namespace lockstep

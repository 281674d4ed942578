// SPDX-License-Identifier: Apache-2.0
#include "parallel/session/uncaught.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <exception>
#include <fmt/format.h>
#include <string_view>
#include <unistd.h>

#include "core/host/machine.h"
#include "lockstep/error.h"
#include "parallel/session/error_report.h"
#include "parallel/session/rank_discovery.h"

namespace lockstep {
namespace {

constexpr std::string_view kNoMemoryToSayMore =
    "error: out of memory on the host\n"
    "hint: use a smaller micro-batch or fewer ranks a host\n";

std::array<char, 512> abort_text;
std::size_t abort_length = 0;

void on_abort(int /*signal*/) {
  if (::write(STDERR_FILENO, abort_text.data(), abort_length) < 0) _exit(1);
  _exit(int(ExitCode::error));
}

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

void report_aborts() {
  const auto written =
      fmt::format_to_n(abort_text.data(),
                       abort_text.size(),
                       "[rank {} {}] error: a library has called abort(); the lines before this "
                       "one may say why\n"
                       "hint: memory may have run out; otherwise please report this\n",
                       launched_rank(process_variables()),
                       host_name());
  abort_length = std::min(written.size, abort_text.size());
  std::signal(SIGABRT, on_abort);
}

}  // namespace lockstep

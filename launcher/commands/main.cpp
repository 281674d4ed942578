// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <cstdlib>
#include <exception>
#include <fcntl.h>
#include <new>
#include <string>
#include <unistd.h>
#include <vector>

#include "core/base/parameter_names.h"
#include "core/host/failed_allocation.h"
#include "launcher/commands/command_table.h"
#include "launcher/output/standard_output.h"
#include "launcher/settings/table/setting.h"
#include "lockstep/error.h"
#include "parallel/session/error_report.h"
#include "parallel/session/uncaught.h"

namespace {

int run(const std::vector<std::string>& arguments) {
  if (arguments.empty())
    throw lockstep::ConfigError("no command given", "lockstep train, or lockstep --help");
  const std::string& command = arguments[0];
  if (command == "--help" || command == "-h") return lockstep::help_command({});
  return lockstep::find_command(lockstep::all_commands(), command)
      .run({arguments.begin() + 1, arguments.end()});
}

}  // namespace

namespace {

// Before all other objects of this program are made, since that needs memory too.
struct HandlesUncaught {
  HandlesUncaught() { std::set_terminate(lockstep::report_uncaught); }
};
[[gnu::init_priority(101)]] const HandlesUncaught handles_uncaught;

}  // namespace

// So that an error can say how much was asked for. Sanitizers bring their own. Inlined, a delete
// would show the compiler a free() of what it takes for another operator's memory.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void* operator new(std::size_t bytes) {
  if (void* const memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  lockstep::note_failed_allocation(bytes);
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  std::free(memory);
}
#endif

namespace {

/// A file that is opened later must not take the place of an output that was closed (>&-), and get
/// its lines.
void open_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(descriptor, F_GETFD) < 0)
      (void)!open("/dev/null", descriptor == STDIN_FILENO ? O_RDONLY : O_WRONLY);
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_descriptors();
  // Neither a reader that goes away nor a limit on the size of files must end the training.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  // Output of a background process must not stop it, whatever the terminal's settings (tostop).
  std::signal(SIGTTOU, SIG_IGN);
  // Inherited as ignored, the ends of children would never be reported.
  std::signal(SIGCHLD, SIG_DFL);
  try {
    lockstep::set_parameter_style(lockstep::flag_of_parameter);
    lockstep::report_aborts();
    const int code = run({argv + 1, argv + argc});
    lockstep::flush_output();
    return code;
  } catch (...) {
    return lockstep::report_alone(std::current_exception());
  }
}

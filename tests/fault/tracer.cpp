// SPDX-License-Identifier: Apache-2.0
#include "tests/fault/tracer.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <map>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep::testing {

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

constexpr int kCannotStart = 126;

/// Which arguments of a call say what it works on.
struct Signature {
  int folder_descriptor = -1, path = -1, descriptor = -1;
};

Signature signature_of(std::int64_t number) {
  switch (number) {
    case SYS_open:
    case SYS_mkdir:
    case SYS_rename:
    case SYS_unlink:
    case SYS_rmdir:
    case SYS_stat:
    case SYS_lstat:
    case SYS_access:
    case SYS_readlink:
    case SYS_chmod:
      return {.path = 0};
    case SYS_openat:
    case SYS_mkdirat:
    case SYS_renameat:
    case SYS_renameat2:
    case SYS_unlinkat:
    case SYS_newfstatat:
    case SYS_statx:
      return {.folder_descriptor = 0, .path = 1};
    case SYS_write:
    case SYS_writev:
    case SYS_pwrite64:
    case SYS_fallocate:
    case SYS_ftruncate:
    case SYS_fsync:
    case SYS_fdatasync:
    case SYS_close:
    case SYS_getdents64:
    case SYS_fstat:
      return {.descriptor = 0};
    default:
      return {};
  }
}

/// A string in the memory of the program; no further than the page it starts in and the next.
std::string read_string(pid_t thread, std::uint64_t address) {
  std::string text;
  constexpr std::uint64_t kPage = 4096;
  while (text.size() < PATH_MAX) {
    char buffer[kPage];
    const std::size_t bytes = kPage - address % kPage;
    const iovec here{buffer, bytes}, there{reinterpret_cast<void*>(address), bytes};
    const ssize_t got = ::process_vm_readv(thread, &here, 1, &there, 1, 0);
    if (got <= 0) break;
    const std::size_t length = ::strnlen(buffer, std::size_t(got));
    text.append(buffer, length);
    if (length < std::size_t(got)) break;
    address += std::uint64_t(got);
  }
  return text;
}

std::string path_of_descriptor(pid_t thread, int descriptor) {
  const std::string link = descriptor == AT_FDCWD
                               ? fmt::format("/proc/{}/cwd", thread)
                               : fmt::format("/proc/{}/fd/{}", thread, descriptor);
  char path[PATH_MAX];
  const ssize_t length = ::readlink(link.c_str(), path, sizeof path);
  return length < 0 ? std::string() : std::string(path, std::size_t(length));
}

SystemCall describe(pid_t thread, const __ptrace_syscall_info& info) {
  SystemCall call;
  call.number = std::int64_t(info.entry.nr);
  std::copy(std::begin(info.entry.args), std::end(info.entry.args), call.arguments.begin());
  const Signature signature = signature_of(call.number);
  if (signature.descriptor >= 0) {
    call.path = path_of_descriptor(thread, int(call.arguments[std::size_t(signature.descriptor)]));
    call.on_descriptor = true;
  } else if (signature.path >= 0) {
    call.path = read_string(thread, call.arguments[std::size_t(signature.path)]);
    if (!call.path.starts_with('/')) {
      const int folder = signature.folder_descriptor < 0
                             ? AT_FDCWD
                             : int(call.arguments[std::size_t(signature.folder_descriptor)]);
      call.path = path_of_descriptor(thread, folder) + "/" + call.path;
    }
  }
  return call;
}

/// Where the program's output goes.
class Captured {
 public:
  Captured() : descriptor_(::memfd_create("output", MFD_CLOEXEC)) {
    if (descriptor_ < 0) throw std::runtime_error("memfd_create failed");
  }
  ~Captured() { ::close(descriptor_); }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  int descriptor() const { return descriptor_; }
  std::string text() const {
    std::string result;
    char buffer[4096];
    ssize_t got = 0;
    while ((got = ::pread(descriptor_, buffer, sizeof buffer, off_t(result.size()))) > 0)
      result.append(buffer, std::size_t(got));
    return result;
  }

 private:
  int descriptor_;
};

class Tracer {
 public:
  Tracer(const std::vector<std::string>& command,
         const std::function<Interference(const SystemCall&)>& decide)
      : decide_(decide) {
    for (const std::string& part : command) arguments_.push_back(const_cast<char*>(part.c_str()));
    arguments_.push_back(nullptr);
  }

  Ended run() {
    program_ = ::fork();
    if (program_ == 0) become_program();
    if (program_ < 0) throw std::runtime_error("fork failed");
    int status = 0;
    if (::waitpid(program_, &status, __WALL) != program_ || !WIFSTOPPED(status))
      throw std::runtime_error("the program cannot be traced");
    constexpr long kOptions =
        PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    ::ptrace(PTRACE_SETOPTIONS, program_, nullptr, kOptions);
    ::ptrace(PTRACE_SYSCALL, program_, nullptr, 0L);
    for (;;) {
      const pid_t thread = ::waitpid(-1, &status, __WALL);
      if (thread < 0 && errno == EINTR) continue;
      if (thread < 0) break;  // all are gone
      if (WIFSTOPPED(status)) {
        handle_stop(thread, status);
      } else if (thread == program_) {
        ended_.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
        if (WIFSIGNALED(status) && !ended_.killed) ended_.signal = WTERMSIG(status);
      }
    }
    ended_.out = out_.text();
    ended_.err = err_.text();
    return ended_;
  }

 private:
  [[noreturn]] void become_program() {
    ::dup2(out_.descriptor(), STDOUT_FILENO);
    ::dup2(err_.descriptor(), STDERR_FILENO);
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(kCannotStart);
    ::raise(SIGSTOP);
    ::execv(arguments_[0], arguments_.data());
    ::_exit(kCannotStart);
  }

  void handle_stop(pid_t thread, int status) {
    long signal = 0;
    if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
      handle_call(thread);
    } else if ((status >> 16) == 0 && WSTOPSIG(status) != SIGSTOP) {
      signal = WSTOPSIG(status);  // new threads begin with a SIGSTOP
    }
    ::ptrace(PTRACE_SYSCALL, thread, nullptr, signal);  // fails once it has been killed
  }

  void handle_call(pid_t thread) {
    __ptrace_syscall_info info{};
    if (::ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info) <= 0) return;
    if (info.op == PTRACE_SYSCALL_INFO_EXIT) {
      if (const auto failing = failing_.find(thread); failing != failing_.end()) {
        change_registers(thread, [&](user_regs_struct& registers) {
          registers.rax = static_cast<unsigned long long>(-std::int64_t(failing->second));
        });
        failing_.erase(failing);
      }
      return;
    }
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY || ended_.killed) return;
    const Interference interference = decide_(describe(thread, info));
    switch (interference.kind) {
      case Interference::Kind::none:
        break;
      case Interference::Kind::kill:
        ended_.killed = true;
        ::kill(program_, SIGKILL);
        break;
      case Interference::Kind::fail:
        failing_[thread] = interference.error;
        change_registers(thread, [](user_regs_struct& registers) {
          registers.orig_rax = ~0ULL;  // no such call
        });
        break;
      case Interference::Kind::shorten:
        change_registers(
            thread, [](user_regs_struct& registers) { registers.rdx = (registers.rdx + 1) / 2; });
        break;
    }
  }

  static void change_registers(pid_t thread, const auto& change) {
    user_regs_struct registers{};
    ::ptrace(PTRACE_GETREGS, thread, nullptr, &registers);
    change(registers);
    ::ptrace(PTRACE_SETREGS, thread, nullptr, &registers);
  }

  const std::function<Interference(const SystemCall&)>& decide_;
  std::vector<char*> arguments_;
  Captured out_, err_;
  pid_t program_ = -1;
  std::map<pid_t, int> failing_;  // threads within a call that is to return this error
  Ended ended_;
};

}  // namespace

std::string why_no_tracing() {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(errno);
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, __WALL);
  if (!WIFSTOPPED(status)) return std::string("ptrace: ") + std::strerror(WEXITSTATUS(status));
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, __WALL);
  return {};
}

Ended run_traced(const std::vector<std::string>& command,
                 const std::function<Interference(const SystemCall&)>& decide) {
  return Tracer(command, decide).run();
}

#else

std::string why_no_tracing() { return "needs x86-64 and a build without sanitizers"; }

Ended run_traced(const std::vector<std::string>&,
                 const std::function<Interference(const SystemCall&)>&) {
  throw std::runtime_error(why_no_tracing());
}

#endif

}  // namespace lockstep::testing

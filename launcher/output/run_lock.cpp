// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/run_lock.h"

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "core/base/parameter_names.h"
#include "core/host/machine.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

constexpr std::string_view kEnded = "ended with exit code ";

std::string read_start(int descriptor) {
  char text[256];
  const ssize_t length = ::pread(descriptor, text, sizeof text, 0);
  std::string line(text, std::size_t(length > 0 ? length : 0));
  return line.substr(0, line.find('\n'));
}

std::string time_text() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  return text;
}

/// False where another process has the lock.
bool try_lock(int descriptor) {
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return true;
  return errno != EWOULDBLOCK && errno != EINTR;
}

}  // namespace

RunLock::RunLock(const std::string& folder, const std::string& name) : file_(folder + "/" + name) {
  open_file();
  const auto start = std::chrono::steady_clock::now();
  while (!try_lock(descriptor_) || !still_has_its_name()) {
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    if (waited.count() > kPatienceSeconds) {
      const std::string holder = read_start(descriptor_);
      ::close(descriptor_);
      throw EnvironmentError(fmt::format("another run works in {}: {}",
                                         as_written(folder),
                                         holder.empty() ? "its lock does not say which" : holder),
                             "wait for it or end it, or choose another --out");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const std::string line =
      fmt::format("process {} on {}, since {}\n", getpid(), host_name(), time_text());
  if (::ftruncate(descriptor_, 0) != 0 ||
      ::pwrite(descriptor_, line.data(), line.size(), 0) != ssize_t(line.size())) {
    // A full disk: the lock holds all the same, it only cannot say who holds it.
  }
}

void RunLock::open_file() {
  do {
    descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  } while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ >= 0) return;
  const int error = errno;
  throw EnvironmentError(
      fmt::format("{}: cannot be created: {}", as_written(file_), std::strerror(error)),
      error == ELOOP ? "a symbolic link is not written through: remove it"
                     : "choose a writable place with --out DIR");
}

// A refused start removes the file that it has locked: a lock on that one locks no process out.
bool RunLock::still_has_its_name() {
  struct stat own {
  }, named{};
  if (::fstat(descriptor_, &own) == 0 && ::stat(file_.c_str(), &named) == 0 &&
      own.st_ino == named.st_ino && own.st_dev == named.st_dev)
    return true;
  ::close(std::exchange(descriptor_, -1));
  open_file();
  return false;
}

void RunLock::note_end(int exit_code) {
  const std::string line = fmt::format("{}{}\n", kEnded, exit_code);
  struct stat own {};
  if (::fstat(descriptor_, &own) != 0 ||
      ::pwrite(descriptor_, line.data(), line.size(), own.st_size) != ssize_t(line.size())) {
    // Who would read it takes the process for one that was killed.
  }
}

std::optional<int> RunLock::noted_end(const std::string& folder, const std::string& name) {
  std::ifstream stream(folder + "/" + name);
  std::string start, end;
  if (!std::getline(stream, start) || !std::getline(stream, end) || !end.starts_with(kEnded))
    return std::nullopt;
  int exit_code = 0;
  const char* const last = end.data() + end.size();
  const auto read = std::from_chars(end.data() + kEnded.size(), last, exit_code);
  if (read.ec != std::errc() || read.ptr != last) return std::nullopt;
  return exit_code;
}

std::optional<std::string> RunLock::holder(const std::string& folder, const std::string& name) {
  const int descriptor =
      ::open((folder + "/" + name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return std::nullopt;
  struct stat status {};
  std::optional<std::string> holder;
  if (::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
      ::flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    holder = as_written(read_start(descriptor));
    if (holder->empty()) holder = "a process";
  }
  ::close(descriptor);
  return holder;
}

// The file stays: removing it could hand the next two runs different files to lock.
RunLock::~RunLock() { ::close(descriptor_); }

}  // namespace lockstep

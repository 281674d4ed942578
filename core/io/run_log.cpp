// SPDX-License-Identifier: Apache-2.0
#include "core/io/run_log.h"

#include <cerrno>
#include <cmath>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace lockstep {
namespace {

constexpr int kMaxTries = 30;
constexpr useconds_t kTryUs = 10'000;

/// Without the lock where another thread hangs in a write.
std::unique_lock<std::mutex> lock_for_a_while(std::mutex& mutex) {
  std::unique_lock lock(mutex, std::try_to_lock);
  for (int i = 0; i < kMaxTries && !lock; ++i) {
    usleep(kTryUs);
    (void)lock.try_lock();
  }
  return lock;
}

}  // namespace

std::string json_object(std::span<const JsonField> fields, int indent) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const JsonField& field : fields) {
    std::visit(
        [&](const auto& value) {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, double>) {
            if (!std::isfinite(value)) {
              object[std::string(field.name)] = nullptr;
              return;
            }
          }
          if constexpr (std::is_same_v<T, JsonText>) {
            if (!value.text.empty())
              object[std::string(field.name)] = nlohmann::ordered_json::parse(value.text);
          } else {
            object[std::string(field.name)] = value;
          }
        },
        field.value);
  }
  return object.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

RunLog::RunLog(const std::string& file, Open open) : file_(file), shared_(open == Open::shared) {
  // Always at the end: the launcher writes into rank 0's log as well.
  const int how =
      O_NOFOLLOW | O_APPEND | (open == Open::empty ? O_TRUNC : 0) | (shared_ ? O_RDWR : O_WRONLY);
  do {
    descriptor_ = ::open(file.c_str(), O_CREAT | how | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0) fail(errno);
}

RunLog::~RunLog() { close(); }

RunLog& RunLog::operator=(RunLog&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(error_, other.error_);
  std::swap(line_, other.line_);
  std::swap(shared_, other.shared_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void RunLog::write_line(std::string_view line) {
  const std::unique_lock lock = lock_for_a_while(*writing_);
  if (!lock) return;
  line_ = shared_ && ends_within_line() ? "\n" : "";
  line_ += line;
  line_ += '\n';
  write_locked(line_);
}

bool RunLog::ends_within_line() const {
  const off_t end = descriptor_ < 0 ? -1 : lseek(descriptor_, 0, SEEK_END);
  char last = '\n';
  return end > 0 && pread(descriptor_, &last, 1, end - 1) == 1 && last != '\n';
}

void RunLog::write(std::string_view bytes) {
  const std::unique_lock lock = lock_for_a_while(*writing_);
  if (lock) write_locked(bytes);
}

void RunLog::write_locked(std::string_view rest) {
  if (descriptor_ < 0 || !error_.empty()) return;
  while (!rest.empty()) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail(errno);
    rest.remove_prefix(std::size_t(written));
  }
}

void RunLog::close() {
  const std::unique_lock lock = lock_for_a_while(*writing_);
  if (!lock || descriptor_ < 0) return;
  int code = 0;
  do {
    code = ::fsync(descriptor_) == 0 ? 0 : errno;
  } while (code == EINTR);
  // Devices and pipes cannot be flushed, which is not a loss.
  if (code != 0 && code != EINVAL && code != EROFS && code != ENOTSUP) fail(code);
  if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) fail(errno);
}

void RunLog::fail(int code) {
  if (!error_.empty()) return;
  error_ = file_ + ": " +
           (code == ELOOP ? "a symbolic link, which is not written through"
                          : std::generic_category().message(code));
}

}  // namespace lockstep

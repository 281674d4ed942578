// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/base/parameter_names.h"
#include "core/base/source_loc.h"

namespace lockstep {

/// What the process returns to its launcher; the table of the README.
enum class ExitCode : int {
  done = 0,
  error = 1,
  usage = 2,
  environment = 3,
  out_of_memory = 4,
  collective_timeout = 5,  ///< a rank died, is frozen or stuck; the others would wait for ever
  replicas_diverged = 6,
  loss_not_finite = 7,
  requeue = 75,  ///< stopped by a signal, with a checkpoint to resume from
};

/// Base of everything Lockstep throws. The message names the operator or file, what was expected
/// and what came; `hint` says what to do about it and may be empty. Both name parameters in
/// backticks, or as name_parameters() does where a tool has set a style.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message,
                 const std::string& hint = {},
                 ExitCode exit_code = ExitCode::error)
      : std::runtime_error(name_parameters(message)),
        hint_(name_parameters(hint)),
        parameters_(parameters_in(message + hint)),
        exit_code_(exit_code) {}

  const std::string& hint() const { return hint_; }
  ExitCode exit_code() const { return exit_code_; }
  /// The parameters that message and hint name, as "micro_batch".
  const std::vector<std::string>& parameters() const { return parameters_; }
  /// For an error that another rank has thrown, whose text has the tool's names.
  void set_parameters(std::vector<std::string> parameters) { parameters_ = std::move(parameters); }

 private:
  std::string hint_;
  std::vector<std::string> parameters_;
  ExitCode exit_code_;
};

/// Shapes or dtypes that do not fit an operator.
class ShapeError : public Error {
 public:
  explicit ShapeError(const std::string& message, std::string hint = {})
      : Error(message, std::move(hint), ExitCode::usage) {}
};

/// Settings that are unknown, out of range, or contradict each other.
class ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& message, std::string hint = {})
      : Error(message, std::move(hint), ExitCode::usage) {}
};

/// Data files that are missing, unreadable, truncated or inconsistent.
class DataError : public Error {
 public:
  explicit DataError(const std::string& message, std::string hint = {})
      : Error(message, std::move(hint), ExitCode::error) {}
};

/// The machine, the launcher or the file system is not as a run needs it.
class EnvironmentError : public Error {
 public:
  explicit EnvironmentError(const std::string& message, std::string hint = {})
      : Error(message, std::move(hint), ExitCode::environment) {}
};

/// Memory that could not be had, on the host or on the device.
class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(const std::string& message, std::string hint = {})
      : Error(message, std::move(hint), ExitCode::out_of_memory) {}
};

/// A message between ranks that failed.
class CommError : public Error {
 public:
  explicit CommError(const std::string& message, std::string hint = {})
      : Error(message, std::move(hint), ExitCode::error) {}
};

/// Replicas that must hold the same bits do not.
class DivergedError : public Error {
 public:
  explicit DivergedError(const std::string& message, std::string hint = {})
      : Error(message, std::move(hint), ExitCode::replicas_diverged) {}
};

/// The loss or the norm of the gradients is infinite or NaN.
class NonFiniteError : public Error {
 public:
  explicit NonFiniteError(const std::string& message, std::string hint = {})
      : Error(message, std::move(hint), ExitCode::loss_not_finite) {}
};

/// A broken invariant of Lockstep itself: a bug of ours, never the user's mistake.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& message) : Error(message, "please report this") {}
};

}  // namespace lockstep

/// Throws `ErrorType` with a message in fmt's syntax unless `condition` holds. For input.
#define LOCKSTEP_CHECK(condition, ErrorType, ...)              \
  do {                                                         \
    if (!(condition)) [[unlikely]]                             \
      throw ::lockstep::ErrorType(::fmt::format(__VA_ARGS__)); \
  } while (false)

/// Throws InternalError unless an invariant holds. Always on.
#define LOCKSTEP_ASSERT(condition)                                                         \
  do {                                                                                     \
    if (!(condition)) [[unlikely]]                                                         \
      throw ::lockstep::InternalError(                                                     \
          ::fmt::format("invariant broken at {}:{}: {}", __FILE__, __LINE__, #condition)); \
  } while (false)

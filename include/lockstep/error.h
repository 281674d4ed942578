// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// How a process of Lockstep ends: what run_job() returns, and the exit code of the program
/// lockstep.
enum class ExitCode : int {
  done = 0,
  error = 1,               ///< any error that has no code of its own
  usage = 2,               ///< a setting, a flag or a shape that cannot be
  environment = 3,         ///< the machine, the launcher or the file system
  out_of_memory = 4,       ///< on the host or on the device
  collective_timeout = 5,  ///< a rank died, froze or got stuck while others waited for it
  replicas_diverged = 6,   ///< ranks hold different weights
  loss_not_finite = 7,     ///< the loss or a gradient is infinite or NaN
  requeue = 75,            ///< stopped by a signal, with a checkpoint to resume from
};

/// Base of everything that Lockstep throws:
///
///   try { trainer.fit(data); } catch (const lockstep::Error& error) {
///     std::fprintf(stderr, "%s (%s)\n", error.what(), error.hint().c_str());
///   }
///
/// what() names the operator, parameter or file, what was expected and what came; hint() says what
/// to do about it. Both write the name of a parameter in backticks: "use a smaller `micro_batch`".
/// run_job() prints both, and returns exit_code().
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message,
                 const std::string& hint = {},
                 ExitCode exit_code = ExitCode::error);

  /// What to do about it; may be empty.
  const std::string& hint() const { return hint_; }
  ExitCode exit_code() const { return exit_code_; }
  /// The parameters that message and hint name, each once: {"micro_batch"}.
  const std::vector<std::string>& parameters() const { return parameters_; }
  /// Appends what only the caller knows, such as where a parameter has its value from.
  void add_hint(const std::string& text) { hint_ += hint_.empty() ? text : "; " + text; }
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

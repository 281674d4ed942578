// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

#include "lockstep/error.h"

namespace lockstep {

/// What people read of an exception, and the exit code of a process that ends with it.
struct ExceptionText {
  std::string message;
  std::string hint;  ///< may be empty
  ExitCode code = ExitCode::error;
};

/// Of any exception: an Error's own text and code; std::bad_alloc is out_of_memory, with the memory
/// that was asked for; one of a file system is environment, and names the file; all else has the
/// code error, and so has what does not derive from std::exception.
ExceptionText text_of(const std::exception_ptr& exception);

}  // namespace lockstep

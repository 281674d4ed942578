// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep {

/// A std::terminate_handler. Where an exception has nowhere to go (memory that runs out before
/// main(), in a thread, in a destructor, in code of others that promises not to throw), it says so
/// once, as other errors are said, and ends the process with the error's exit code instead of by
/// SIGABRT. Buffers and checkpoints in the making are left as they are.
[[noreturn]] void report_uncaught() noexcept;

/// From here on abort(), as a failed assertion of a library calls it, is reported in the same way
/// and ends the process with exit code 1.
void report_aborts();

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep {

/// Hands on what was printed to std::cout. Where its reader has left, as in `| head`, this process
/// ends by SIGPIPE without a word, as other programs do. Throws EnvironmentError: the output cannot
/// be written, as on a full disk.
void flush_output();

}  // namespace lockstep

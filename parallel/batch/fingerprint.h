// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/exec/communicator.h"

namespace lockstep {

/// What must be equal on every rank before step 1: keys a person can read, with values or hashes.
using Fingerprint = std::vector<std::pair<std::string, std::string>>;

/// Compares across ranks. Throws ConfigError, the same on every rank, naming each key that differs
/// and which ranks have which value. Collective. Compares a hash of the whole at first (XXH64: 16
/// bytes, whatever the number of ranks); only where that differs do ranks send what they have.
void compare_fingerprints(Communicator& communicator, const Fingerprint& fingerprint);

/// What `compute` returns on rank 0, where alone it is called, on every rank; or its error.
/// Collective.
Fingerprint fingerprint_of_rank_0(Communicator& communicator,
                                  const std::function<Fingerprint()>& compute);

/// 16 hexadecimal digits of FNV-1a over `text`.
std::string short_hash(const std::string& text);

}  // namespace lockstep

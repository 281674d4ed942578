// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/exec/communicator.h"

namespace lockstep {

/// `error` as ranks tell it each other: {"error", "hint", "code", "parameters"}, the latter where
/// it names some. To be written by serialized_error_text(), since messages name files, whose names
/// need not be UTF-8.
nlohmann::json serialize_error(const std::exception_ptr& error);

/// As one line; bytes that are not UTF-8 are replaced.
std::string serialized_error_text(const nlohmann::json& serialized);

/// Throws what serialize_error() has serialized: Error with its code and parameters, or
/// OutOfMemory. `before` stands in front of the message: "on rank 3: ".
[[noreturn]] void throw_serialized_error(const nlohmann::json& serialized,
                                         const std::string& before = {});

/// What `compute` returns on rank 0, where alone it is called; where it throws, every rank throws
/// that error. Collective.
std::string text_of_rank_0(Communicator& communicator, const std::function<std::string()>& compute);

}  // namespace lockstep

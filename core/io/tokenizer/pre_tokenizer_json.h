// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lockstep/tokens/byte_pairs.h"

namespace lockstep::io {

/// Sets what "pre_tokenizer" of tokenizer.json says: pattern and add_prefix_space. It is one of
///   ByteLevel,                                    GPT-2's pattern
///   Digits(individual_digits), ByteLevel          the same between digits
///   Split(a known pattern, Isolated), ByteLevel(use_regex=false)
///   Split(a known pattern, Removed, invert), ByteLevel(use_regex=false)    the same cuts
/// where several are a Sequence. `where` names the file. Throws DataError naming what is not
/// supported.
void read_pre_tokenizer(const nlohmann::json& part,
                        const std::string& where,
                        data::BytePairs& pairs);

/// The same part of `pairs`.
nlohmann::ordered_json pre_tokenizer_json(const data::BytePairs& pairs);

/// The part of the type "ByteLevel".
nlohmann::ordered_json byte_level_json(bool add_prefix_space, bool use_regex = true);

/// Throws DataError: `what` (which ends with a verb) not supported.
[[noreturn]] void refuse_tokenizer(const std::string& where, const std::string& what);

}  // namespace lockstep::io

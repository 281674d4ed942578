// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "lockstep/tokens/tokenizer_file.h"

namespace lockstep::io {

/// The text of tokenizer.json, which Hugging Face's tokenizers reads. Reading it gives an equal
/// tokenizer.
std::string to_json(const data::Tokenizer& tokenizer);

/// Reads such a text; `where` names the file in messages. Throws DataError as read_tokenizer().
data::Tokenizer parse_tokenizer(std::string_view json, const std::string& where);

/// Reads the texts of GPT-2's two files. Throws DataError naming the key, or the line.
data::Tokenizer parse_vocabulary(std::string_view vocabulary_json,
                                 const std::string& vocabulary_file,
                                 std::string_view merges,
                                 const std::string& merges_file);

}  // namespace lockstep::io

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "lockstep/data/preprocessing_file.h"

namespace lockstep::io {

/// The record as JSON, the text of preprocessing.json. Reading it gives the same bits of every
/// number. Bytes of names that are not UTF-8 become U+FFFD, as printable() makes them.
std::string to_json(const data::Preprocessing& record);

/// Reads what to_json() wrote; `where` names the file in messages. Throws DataError: no such JSON,
/// another version, or a record that contradicts itself, naming the key.
/// The tokenizer, which lies in another file, is not read.
data::Preprocessing parse_preprocessing(std::string_view json, const std::string& where);

/// Where the tokenizer of a record in `record_file` lies: "tokenizer.json" next to
/// "preprocessing.json", "a.tokenizer.json" next to "a.preprocessing.json".
std::string tokenizer_of_record(const std::string& record_file);

/// Name and content of the files that a record is kept in: kPreprocessingFile, and kTokenizerFile
/// where a tokenizer is known.
std::map<std::string, std::string> record_texts(const data::Preprocessing& record);

}  // namespace lockstep::io

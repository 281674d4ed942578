// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "lockstep/preprocessing_file.h"

namespace lockstep::io {

/// The record as JSON, the text of preprocessing.json. Reading it gives the same bits of every
/// number. Bytes of names that are not UTF-8 become U+FFFD, as printable() makes them.
std::string to_json(const data::Preprocessing& record);

/// Reads what to_json() wrote; `where` names the file in messages. Throws DataError: no such JSON,
/// another version, or a record that contradicts itself, naming the key.
data::Preprocessing parse_preprocessing(std::string_view json, const std::string& where);

}  // namespace lockstep::io

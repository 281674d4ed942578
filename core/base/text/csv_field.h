// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// `text` in double quotes, its own ones doubled, as any field of a CSV file may stand (RFC 4180).
std::string quoted_csv_field(std::string_view text);

/// The same only where `text` holds a comma, a quote or a line break; `text` itself otherwise.
std::string csv_field(std::string_view text);

/// A field of a table that people open, for text that comes from outside: names of files, classes
/// and runs, messages. A text that begins with =, +, -, @, a tab or a carriage return, and is not a
/// number, gets a ' in front: a spreadsheet would take it for a formula (OWASP, "CSV Injection").
/// Then as csv_field().
std::string csv_name(std::string_view text);

}  // namespace lockstep

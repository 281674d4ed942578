// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// `text` for a terminal: control characters and bytes that are no UTF-8 as \n, \t or \x1b, at most
/// `most` characters, the rest of it as "...".
std::string shown(std::string_view text, int most = 200);

/// A field of a CSV file (RFC 4180): in quotes where it holds a comma, a quote or a line break.
std::string csv_field(std::string_view text);

/// The same for names that come from outside, which a spreadsheet might take for a formula: one
/// that begins with =, +, -, @, a tab or a carriage return, and is no number, gets a ' in front.
/// Source: OWASP, "CSV Injection".
std::string csv_name(std::string_view text);

}  // namespace lockstep

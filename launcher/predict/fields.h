// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// `text` for a terminal: control characters and bytes that are no UTF-8 as \n, \t or \x1b, at most
/// `most` characters, the rest of it as "...".
std::string shown(std::string_view text, int most = 200);

/// csv_field() of a name that comes from outside, which a spreadsheet might take for a formula: one
/// that begins with =, +, -, @, a tab or a carriage return, and is no number, gets a ' in front.
/// Source: OWASP, "CSV Injection".
std::string csv_name(std::string_view text);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Messages of the library write the name of a parameter in backticks, as C++ programs know it:
/// "use a smaller `micro_batch`". A tool whose users know parameters by other names sets a style
/// once, before anything else runs; then every Error, hint and notice has those names:
/// "use a smaller --micro-batch".
///
/// A style returns the other name of `name`, or nothing where it is not a parameter.
using ParameterStyle = std::string (*)(std::string_view name);
void set_parameter_style(ParameterStyle style);

/// `text` with each name in backticks in the style, as it is where no style is set; and without the
/// marks of as_written().
std::string name_parameters(std::string_view text);

/// `text` of a user or a file, for a message to quote: what stands in backticks there is no
/// parameter, and name_parameters() gives the text back as it is. Only for what goes through
/// name_parameters(), as message and hint of an Error do.
std::string as_written(std::string_view text);

/// The names in backticks in `text`, each once, in the order of the text.
std::vector<std::string> parameters_in(std::string_view text);

}  // namespace lockstep

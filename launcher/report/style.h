// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep::report {

/// The page's style sheet: colours for a light and a dark screen, lines that differ in colour and
/// in dashes, areas that differ in colour and in hatching.
std::string style_sheet();

/// An SVG of no size that holds the hatchings.
std::string hatchings();

/// Reads values off the line charts under the pointer. The page is complete without it.
std::string readout_script();

}  // namespace lockstep::report

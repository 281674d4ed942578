// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// `lockstep report RUN...`: one HTML file about one run, or about several on top of one another,
/// that needs no network. Returns 0. Throws ConfigError: flags, more runs than a page takes, an
/// output that is there already; DataError: a folder that holds no run, or damaged metrics;
/// EnvironmentError: the output cannot be written. Changes nothing in a run's folder but for the
/// page, which lies in the first run's unless --out says otherwise.
int report_command(const std::vector<std::string>& arguments);

}  // namespace lockstep

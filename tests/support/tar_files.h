// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep::test {

enum class TarNames { ustar, gnu, pax };

/// A member's header, its content and the zeros up to the next block. `kind` as tar has it: '0' a
/// file, '2' a link, '5' a folder.
std::string tar_member(const std::string& name,
                       const std::string& content,
                       char kind = '0',
                       TarNames names = TarNames::ustar);

/// Two blocks of zeros, as a tar ends.
inline std::string tar_end() { return std::string(1024, '\0'); }

/// A whole tar of names and contents.
std::string tar_file(const std::vector<std::pair<std::string, std::string>>& members,
                     TarNames names = TarNames::ustar);

}  // namespace lockstep::test

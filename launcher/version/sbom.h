// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "launcher/version/build_record.h"
#include "parallel/session/loaded_libraries.h"

namespace lockstep {

/// The software bill of materials, an SPDX 2.3 document: Lockstep and the libraries that `record`
/// names, with licenses and how they are linked. Of `loaded` it takes only which libraries are
/// shared, so that two processes of one program have equal documents.
nlohmann::ordered_json sbom(const BuildRecord& record, std::span<const LoadedLibrary> loaded);

/// The dependency that `library` belongs to; null for what only other libraries need.
const Dependency* dependency_of(const BuildRecord& record, const LoadedLibrary& library);

}  // namespace lockstep

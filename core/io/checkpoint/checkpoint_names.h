// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The names in a folder of checkpoints, and those inside of one.
namespace lockstep::io {

inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";
inline constexpr const char* kAverageFile = "ema.safetensors";  ///< where a run has an average
inline constexpr const char* kStateFile = "state.json";
inline constexpr const char* kManifestFile = "manifest.json";

/// Bytes of state.json or manifest.json; more cannot be honest.
inline constexpr std::uint64_t kMaxTextBytes = std::uint64_t{64} << 20;

/// Names that no search for checkpoints takes for one.
/// ".step_00001000.tmp", ".step_00001000.ID.tmp": being written.
std::string unfinished_name(std::int64_t step, const std::string& id = {});
std::string removed_name(std::int64_t step);  ///< ".step_00001000.removed.tmp": being removed
/// ".step_00001000.old": whole, and the only one of its step where no new one has taken its place.
std::string replaced_name(std::int64_t step);

/// The step of a name that is exactly checkpoint_name() of it.
std::optional<std::int64_t> step_of(std::string_view name);

/// Whether a save or a removal that was cut off may have left it: unfinished_name() and
/// removed_name().
bool is_temporary_name(const std::string& name);

/// Steps of all names in `folder` that are those of checkpoints, oldest first. Throws
/// EnvironmentError: it cannot be read. Empty where it does not exist.
std::vector<std::int64_t> steps_in(const std::filesystem::path& folder);

}  // namespace lockstep::io

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// The first file of every run, and its mark: it is written over, never missing in between, so that
/// a start killed at any moment leaves a folder in which the run can continue.
inline constexpr const char* kHistoryFile = "history.jsonl";
inline constexpr const char* kCheckpointsFolder = "checkpoints";
/// What to do where the system refuses the output folder.
inline constexpr const char* kOutputFolderHint = "choose a writable place with --out DIR";

/// What rank 0 says, and what is said about it.
inline constexpr const char* kTranscript = "logs/rank_0.log";
/// What a host's log is called in logs/, without ".log": what a file may be called anywhere, and no
/// log of a rank.
std::string host_log_name(const std::string& host);
/// Where a rank is, as ranks tell each other: hashes of host_log_name() and of machine_id().
struct RankMachine {
  std::uint64_t host = 0, machine = 0;
};
/// What the name of `rank`'s host gets, of ranks on those: nothing, or "-" and the lowest rank of
/// its machine where another machine has the name as well.
std::string host_log_suffix(std::span<const RankMachine> ranks, int rank);
/// Removes the logs of ranks and hosts in `folder`, of this version and those before. What others
/// put there stays.
void remove_logs(const std::filesystem::path& folder);

/// Of a run that has it, or of one that supervises it; or what names its SnapshotFolder.
bool is_lock(const std::string& name);
/// Or nothing at all. Throws EnvironmentError where the folder cannot be read.
bool holds_only_locks(const std::filesystem::path& folder);

/// Creates `folder` and its parents; appends those that were not there, outermost first. Throws
/// EnvironmentError with the system's reason.
void create_output_folder(const std::filesystem::path& folder,
                          std::vector<std::filesystem::path>& created);
/// Creates a folder runs/<local time> that no other run has, as that does; its path.
std::string create_fresh_output_folder(std::vector<std::filesystem::path>& created);
/// OUT/logs/output/N for what ranks print, of which N numbers all starts of the run in OUT. Created
/// by who writes there.
std::string next_output_folder(const std::filesystem::path& out);

}  // namespace lockstep

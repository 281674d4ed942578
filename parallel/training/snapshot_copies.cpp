// SPDX-License-Identifier: Apache-2.0
#include "parallel/training/snapshot_copies.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/parameter_names.h"
#include "core/data/input_file.h"
#include "core/host/machine.h"
#include "core/io/checkpoint/checkpoint.h"
#include "core/io/checkpoint/checkpoint_names.h"
#include "core/io/checkpoint/checkpoint_state.h"
#include "core/io/folder.h"
#include "core/io/output_file.h"
#include "lockstep/error.h"
#include "parallel/comm/collective_strings.h"
#include "parallel/training/snapshot_hosts.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// A snapshot of a host.
struct HostSnapshot {
  io::Reached reached;
  std::string digest;
  int rank = -1;  ///< which leads the host
};

/// The newest that is whole in this host's memory.
std::optional<HostSnapshot> newest_here(const std::string& folder) {
  try {
    if (!io::is_private(folder)) return std::nullopt;
    io::remove_temporaries(folder);
    std::vector<std::string> damaged;
    const auto found = io::newest_checkpoint(folder, damaged);
    if (!found) return std::nullopt;
    return HostSnapshot{.reached = io::reached(found->state),
                        .digest = io::checkpoint_digest(found->path)};
  } catch (const Error&) {  // of no use to this program
    return std::nullopt;
  }
}

/// The newest checkpoint on the disk, by its name.
io::Reached newest_on_disk(const std::string& folder) {
  try {
    const std::vector<std::int64_t> steps = io::steps_in(folder);
    if (steps.empty()) return {};
    const fs::path file = fs::path(folder) / io::checkpoint_name(steps.back()) / io::kStateFile;
    const auto state = io::parse_state(file.string(), data::read_text_file(file.string(), ""));
    return io::reached(state);
  } catch (const Error&) {  // who resumes reads all of it, and says so
    return {};
  }
}

/// The newest that verifies: rank 0's, on all ranks. Collective.
io::Reached newest_whole_on_disk(Communicator& communicator, const CheckpointOptions& options) {
  io::Reached reached;
  if (communicator.rank() == 0) try {
      std::vector<std::string> damaged;
      if (const auto found = io::newest_checkpoint(options.folder, damaged))
        reached = io::reached(found->state);
    } catch (const Error&) {  // who resumes says so
    }
  communicator.broadcast(&reached, sizeof reached, 0);
  return reached;
}

/// What hosts have, by the rank that leads each, and where the disk is.
struct Standing {
  std::vector<HostSnapshot> snapshots;
  io::Reached disk;
};

Standing gather_standing(Communicator& communicator,
                         const std::optional<HostSnapshot>& own,
                         const CheckpointOptions& options) {
  json told = json::object();
  if (own)
    told = {{"rollbacks", own->reached.rollbacks},
            {"step", own->reached.step},
            {"digest", own->digest}};
  const io::Reached disk =
      communicator.rank() == 0 ? newest_on_disk(options.folder) : io::Reached();
  if (communicator.rank() == 0) told["disk"] = {disk.rollbacks, disk.step};
  const std::vector<std::string> texts = gather_strings(communicator, told.dump());
  Standing standing;
  for (std::size_t r = 0; r < texts.size(); ++r) {
    const json one = json::parse(texts[r]);
    if (r == 0) standing.disk = {one["disk"][0], one["disk"][1]};
    if (one.contains("step"))
      standing.snapshots.push_back({{one["rollbacks"], one["step"]}, one["digest"], int(r)});
  }
  return standing;
}

/// Names of the files in `snapshot`, and their bytes; none where it cannot be read.
json files_of(const fs::path& snapshot) {
  json files = json::array();
  try {
    for (const std::string& name : io::names_in(snapshot))
      files.push_back({name, std::uint64_t(fs::file_size(snapshot / name))});
  } catch (const std::exception&) {  // who receives it says that it is not whole
    files.clear();
  }
  return files;
}

/// Calls `take` with each piece of `file`, which rank `root` has, on all ranks. What cannot be read
/// there is sent as zeros: the hashes tell.
template <typename Take>
void broadcast_file(
    Communicator& communicator, const fs::path& file, std::uint64_t bytes, int root, Take take) {
  constexpr std::uint64_t kPieceBytes = std::uint64_t{4} << 20;
  std::ifstream in;
  if (communicator.rank() == root) in.open(file, std::ios::binary);
  std::vector<char> piece(std::size_t(std::min(bytes, kPieceBytes)));
  for (std::uint64_t sent = 0; sent < bytes; sent += piece.size()) {
    piece.resize(std::size_t(std::min(bytes - sent, kPieceBytes)));
    if (communicator.rank() == root) in.read(piece.data(), std::streamsize(piece.size()));
    communicator.broadcast(piece.data(), piece.size(), root);
    take(std::as_bytes(std::span(piece)));
  }
}

/// Copies `snapshot`, which rank `root` has, into `folder` of the ranks that lack it. Why one of
/// them could not; empty: all have it.
std::string transfer(Communicator& communicator,
                     const fs::path& folder,
                     const HostSnapshot& snapshot,
                     bool lacks) {
  const fs::path name = io::checkpoint_name(snapshot.reached.step);
  const fs::path unfinished = folder / io::unfinished_name(snapshot.reached.step);
  std::string error;
  const auto attempt = [&](const auto& work) {
    if (!lacks || !error.empty()) return;
    try {
      work();
    } catch (const std::exception& failure) {
      error = failure.what();
    }
  };
  json files;
  if (communicator.rank() == snapshot.rank) files = files_of(folder / name);
  files = json::parse(broadcast_string(communicator, files.dump(), snapshot.rank));
  attempt([&] { io::create_folder(unfinished); });
  for (const json& file : files) {
    const std::string file_name = file[0].get<std::string>();
    std::optional<io::OutputFile> out;
    attempt([&] { out.emplace(unfinished / file_name, io::OutputFile::IfThere::refused); });
    broadcast_file(communicator,
                   folder / name / file_name,
                   file[1].get<std::uint64_t>(),
                   snapshot.rank,
                   [&](std::span<const std::byte> piece) { attempt([&] { out->write(piece); }); });
    attempt([&] { out->finish(); });
  }
  attempt([&] {
    (void)io::verify_checkpoint(unfinished);
    io::remove_tree(folder / name);  // of the same step, and damaged or written at another time
    io::rename_path(unfinished, folder / name);
    io::sync_folder(folder);
  });
  if (!error.empty()) {
    std::error_code ignored;
    fs::remove_all(unfinished, ignored);
    error = fmt::format("rank {} on {}: {}", communicator.rank(), host_name(), as_written(error));
  }
  return first_text(communicator, error).text;
}

/// So that ranks of all hosts find it on the disk.
void save_to_disk(Communicator& communicator,
                  const CheckpointOptions& options,
                  const HostSnapshot& snapshot,
                  const std::string& why) {
  std::string error;
  if (communicator.rank() == snapshot.rank) try {
      const fs::path name = io::checkpoint_name(snapshot.reached.step);
      io::copy_checkpoint(options.snapshot_folder / name, options.folder);
    } catch (const std::exception& failure) {
      error = as_written(failure.what());
    }
  const FirstText first = first_text(communicator, error);
  if (!first.text.empty())
    throw EnvironmentError(
        fmt::format(
            "the newest snapshot, of step {}, is in the memory of rank {}'s host alone: {}; "
            "{}",
            snapshot.reached.step,
            snapshot.rank,
            why,
            first.text),
        "make room in /dev/shm of that host, or on the disk; until then the snapshot stays");
}

}  // namespace

bool copy_newest_snapshot(Communicator& communicator, const CheckpointOptions& options) {
  const SnapshotHosts hosts = find_snapshot_hosts(communicator, options.snapshot_folder);
  if (hosts.count() == 1) return hosts.why_none.empty();
  const bool leads = hosts.leaders[std::size_t(communicator.rank())] == communicator.rank();
  const auto own = leads ? newest_here(options.snapshot_folder) : std::nullopt;
  const Standing standing = gather_standing(communicator, own, options);
  if (standing.snapshots.empty()) return false;
  // The lowest rank of those that have it.
  const HostSnapshot newest = *std::ranges::max_element(
      standing.snapshots, [](const HostSnapshot& a, const HostSnapshot& b) {
        return std::tuple(a.reached, -a.rank) < std::tuple(b.reached, -b.rank);
      });
  const std::int64_t rollbacks = std::max(newest.reached.rollbacks, standing.disk.rollbacks);
  std::string error;
  if (own && own->reached.rollbacks < rollbacks) try {
      io::remove_checkpoints(options.snapshot_folder);
    } catch (const EnvironmentError& failure) {
      error = failure.what();
    }
  if (const FirstText first = first_text(communicator, error); !first.text.empty())
    throw EnvironmentError(first.text);
  if (newest.reached.rollbacks < rollbacks) return false;
  std::string why = hosts.why_none;
  const std::ptrdiff_t have =
      std::ranges::count(standing.snapshots, newest.digest, &HostSnapshot::digest);
  if (why.empty() && have < hosts.count()) {
    const bool lacks = leads && (!own || own->digest != newest.digest);
    why = transfer(communicator, options.snapshot_folder, newest, lacks);
  }
  if (!why.empty()) {
    if (newest.reached > newest_whole_on_disk(communicator, options))
      save_to_disk(communicator, options, newest, why);
    return false;
  }
  if (leads) (void)io::remove_old_checkpoints(options.snapshot_folder, newest.reached.step, 1, -1);
  return true;
}

}  // namespace lockstep

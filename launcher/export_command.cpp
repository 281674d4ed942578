// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <unistd.h>
#include <vector>

#include "core/base/error.h"
#include "core/io/folder.h"
#include "core/io/safetensors.h"
#include "launcher/command_line.h"
#include "launcher/commands.h"
#include "launcher/saved_weights.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

struct ExportFlags {
  std::string from, to;
  bool force = false;
};

void check(const ExportFlags& flags) {
  if (flags.from.empty()) throw ConfigError("export: expected --from RUN or CHECKPOINT");
  if (flags.to.empty())
    throw ConfigError("export: expected --to FILE",
                      "for example lockstep export --from runs/a --to model.safetensors");
  std::error_code error;
  if (fs::is_directory(flags.to, error))
    throw ConfigError(fmt::format("export: --to {} is a folder", flags.to), "name a file in it");
  if (!flags.force && fs::exists(flags.to, error))
    throw ConfigError(fmt::format("export: --to {} is there already", flags.to),
                      "choose another file, or write over it with --force");
}

/// Whose names the tensors have, for people.
const char* flavour(const io::SafetensorsReader& file) {
  const auto any = [&](std::string_view name) { return file.contains(name); };
  if (any("transformer.wte.weight")) return "Hugging Face's GPT-2";
  if (any("layer1.0.conv1.weight") || any("features.0.weight")) return "torchvision";
  return "PyTorch";
}

/// Reads every tensor, so that a file that is short or unreadable is found before it is copied.
std::vector<std::vector<std::byte>> read_all(const io::SafetensorsReader& file) {
  std::vector<std::vector<std::byte>> contents;
  for (const io::TensorEntry& entry : file.entries()) {
    contents.emplace_back(entry.bytes);
    file.read(entry, contents.back());
  }
  return contents;
}

/// To a temporary name beside it, synced, then renamed; link() where nothing may be written over.
void write(const io::SafetensorsReader& from, const fs::path& to, bool force) {
  const std::vector<std::vector<std::byte>> contents = read_all(from);
  std::vector<io::TensorView> views;
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const io::TensorEntry& entry = from.entries()[i];
    views.push_back({entry.name, entry.type, entry.shape, contents[i]});
  }
  const fs::path temporary = to.string() + fmt::format(".{}.tmp", getpid());
  io::write_safetensors(temporary, views, from.metadata());
  const bool moved = force ? std::rename(temporary.c_str(), to.c_str()) == 0
                           : link(temporary.c_str(), to.c_str()) == 0;
  const int error = errno;
  if (!moved || !force) unlink(temporary.c_str());
  if (!moved) io::fail(to, "cannot create", error);
  io::sync_folder(to.has_parent_path() ? to.parent_path() : ".");
}

}  // namespace

int export_command(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Writes the weights of a run or a checkpoint as one safetensors file with PyTorch's "
      "names and layouts.",
      "lockstep export");
  ExportFlags flags;
  app.add_option("--from",
                 flags.from,
                 "folder of a run (its end, else its newest checkpoint) or "
                 "of a checkpoint")
      ->type_name("DIR");
  app.add_option("--to", flags.to, "the file to write")->type_name("FILE.safetensors");
  app.add_flag("--force", flags.force, "write over --to where it is there already");
  if (print_help(parse_command_line(app, arguments))) return 0;
  check(flags);
  const SavedWeights weights = find_weights(flags.from);
  const io::SafetensorsReader file(weights.file());
  write(file, flags.to, flags.force);
  std::cout << fmt::format("source     {}{}\n",
                           weights.folder.string(),
                           weights.checkpoint ? fmt::format(", step {}", weights.step)
                                              : std::string(", the end of the run"))
            << fmt::format("tensors    {}, named as in {}\n", file.entries().size(), flavour(file))
            << fmt::format(
                   "output     {}, {:.1f} MB\n", flags.to, double(fs::file_size(flags.to)) * 1e-6)
            << std::flush;
  return 0;
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iostream>
#include <map>
#include <unistd.h>
#include <vector>

#include "core/base/file_kind.h"
#include "core/data/input_file.h"
#include "core/io/folder.h"
#include "core/io/output_file.h"
#include "core/io/preprocessing_file.h"
#include "core/io/safetensors.h"
#include "core/io/torch/torch_writer.h"
#include "launcher/commands/commands.h"
#include "launcher/onnx/onnx_model.h"
#include "launcher/predict/saved_run.h"
#include "launcher/predict/saved_weights.h"
#include "launcher/settings/command_line.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// Endings of what torch.load() reads, and the other one.
constexpr const char* kTorchEndings[] = {".pth", ".pt", ".bin"};
constexpr const char *kSafetensorsEnding = ".safetensors", *kOnnxEnding = ".onnx";

bool is_torch_name(const fs::path& file) {
  return std::ranges::any_of(kTorchEndings,
                             [&](const char* ending) { return file.extension() == ending; });
}

struct ExportFlags {
  std::string from, to;
  bool average = false, force = false;
};

/// The files of a record, as io::record_texts() names them.
using RecordTexts = std::map<std::string, std::string>;

/// weights.preprocessing.json next to weights.safetensors.
fs::path record_file(const fs::path& weights, const std::string& name = io::kPreprocessingFile) {
  return fs::path(weights).replace_extension(name);
}

void check(const ExportFlags& flags) {
  if (flags.from.empty()) throw ConfigError("export: expected --from RUN or CHECKPOINT");
  if (flags.to.empty())
    throw ConfigError("export: expected --to FILE",
                      "for example lockstep export --from runs/a --to model.safetensors");
  if (is_folder(flags.to))
    throw ConfigError(fmt::format("export: --to {} is a folder", flags.to), "name a file in it");
  const fs::path ending = fs::path(flags.to).extension();
  if (ending != kSafetensorsEnding && ending != kOnnxEnding && !is_torch_name(flags.to))
    throw ConfigError(
        fmt::format("export: --to {} has no ending that is known", flags.to),
        fmt::format("{} writes safetensors; {} write a state dict of PyTorch's; {} the model too",
                    kSafetensorsEnding,
                    fmt::join(kTorchEndings, ", "),
                    kOnnxEnding));
  if (!flags.force && is_there(flags.to))
    throw ConfigError(fmt::format("export: --to {} already exists", flags.to),
                      "choose another file, or write over it with --force");
}

/// The record of how the model's samples are made; empty for a run of a version that kept none.
RecordTexts record_of(const fs::path& folder) {
  const fs::path file = folder / io::kPreprocessingFile;
  return io::name_exists(file) ? io::record_texts(io::read_preprocessing(file.string()))
                               : RecordTexts();
}

/// Removes from `record` what lies next to --to already, as where the same weights were exported in
/// another format. Throws ConfigError: what lies there is another one.
void remove_present(const ExportFlags& flags, RecordTexts& record) {
  std::erase_if(record, [&](const auto& entry) {
    const fs::path file = record_file(flags.to, entry.first);
    if (flags.force || !io::name_exists(file)) return false;
    if (data::read_text_file(file.string(), "remove it") == entry.second) return true;
    throw ConfigError(fmt::format("export: {} already exists, of other data", file.string()),
                      "choose another --to, or write over it with --force");
  });
}

/// Whose names the tensors have, for people.
const char* flavour(const io::SafetensorsReader& file) {
  const auto any = [&](std::string_view name) { return file.contains(name); };
  if (any("transformer.wte.weight")) return "Hugging Face's GPT-2";
  if (any("model.embed_tokens.weight")) return "Hugging Face's Llama";
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

/// To a temporary name next to it, synced, then renamed; link() where nothing may be written over.
void write(const io::SafetensorsReader& from, const fs::path& to, bool force) {
  const std::vector<std::vector<std::byte>> contents = read_all(from);
  std::vector<io::TensorView> views;
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const io::TensorEntry& entry = from.entries()[i];
    views.push_back({entry.name, entry.type, entry.shape, contents[i]});
  }
  const fs::path temporary = to.string() + fmt::format(".{}.tmp", getpid());
  is_torch_name(to) ? io::torch::write_state_dict(temporary, views)
                    : io::write_safetensors(temporary, views, from.metadata());
  io::put_in_place(temporary, to, force);
}

/// ", 1.2 MB"; empty where the file system cannot say, which must not fail the export.
std::string size_text(const fs::path& file) {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(file, error);
  return error ? std::string() : fmt::format(", {:.1f} MB", double(bytes) * 1e-6);
}

/// Writes the record for whoever uses the weights, the same way as them.
void write_record(const RecordTexts& record, const ExportFlags& flags) {
  for (const auto& [name, text] : record) {
    const fs::path to = record_file(flags.to, name);
    const fs::path temporary = to.string() + fmt::format(".{}.tmp", getpid());
    io::write_file(temporary, text);
    io::put_in_place(temporary, to, flags.force);
  }
}

std::string source_text(const SavedWeights& weights) {
  return fmt::format("source     {}{}\n",
                     weights.folder.string(),
                     weights.checkpoint ? fmt::format(", step {}", weights.step)
                                        : std::string(", the end of the run"));
}

/// The model with its weights. What a sample is lies in the file's metadata.
void export_onnx(const ExportFlags& flags) {
  const SavedWeights weights = find_weights(flags.from);
  CLI::App app("", "lockstep export");
  std::vector<std::string> arguments{"--from", weights.folder.string()};
  if (flags.average) arguments.emplace_back("--ema");
  const SavedRun run = open_saved_run(app, arguments);
  const onnx::WrittenModel written = onnx::write_model(
      flags.to, model_of(run, run.trained.samples), run.trained, run.weights, flags.force);
  std::cout << source_text(weights)
            << fmt::format("input      {}\nresult     {}\n", written.input, written.output)
            << fmt::format("output     {}{}\n", flags.to, size_text(flags.to))
            << (written.data_file.empty() ? std::string()
                                          : fmt::format("weights    {}{}\n",
                                                        written.data_file.string(),
                                                        size_text(written.data_file)))
            << std::flush;
}

}  // namespace

int export_command(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Writes the weights of a run or a checkpoint as one file with PyTorch's names and layouts: "
      "safetensors, or a state dict that torch.load() reads; or the model with its weights: ONNX.",
      "lockstep export");
  ExportFlags flags;
  app.add_option("--from",
                 flags.from,
                 "folder of a run (its end, else its newest checkpoint) or "
                 "of a checkpoint")
      ->type_name("DIR");
  app.add_option("--to", flags.to, "the file to write; its ending chooses the format")
      ->type_name("FILE.safetensors|FILE.pth|FILE.onnx");
  app.add_flag(
      "--ema", flags.average, "the average of the weights, of a run with --ema, in place of them");
  app.add_flag("--force", flags.force, "write over --to where it already exists");
  if (print_help(parse_command_line(app, arguments))) return 0;
  check(flags);
  if (fs::path(flags.to).extension() == kOnnxEnding) {
    export_onnx(flags);
    return 0;
  }
  const SavedWeights weights = find_weights(flags.from);
  RecordTexts record = record_of(weights.folder);
  const bool has_record = !record.empty();
  remove_present(flags, record);
  const io::SafetensorsReader file(flags.average ? weights.average() : weights.file());
  write(file, flags.to, flags.force);
  write_record(record, flags);
  std::cout << source_text(weights)
            << fmt::format("tensors    {}, named as in {}\n", file.entries().size(), flavour(file))
            << fmt::format("output     {}{}\n", flags.to, size_text(flags.to))
            << (!has_record ? std::string()
                            : fmt::format("record     {}\n", record_file(flags.to).string()))
            << std::flush;
  return 0;
}

}  // namespace lockstep

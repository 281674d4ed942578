// SPDX-License-Identifier: Apache-2.0
// A checkpoint's folder, as a start with --resume reads it: the manifest, the files that it lists,
// and the tensors of the model where all of them are whole. See checkpoint_files.h for the inputs.
#include "core/io/checkpoint/checkpoint.h"

#include <fstream>
#include <optional>

#include "core/base/sha256.h"
#include "core/io/checkpoint/checkpoint_state.h"
#include "core/io/checkpoint/manifest.h"
#include "core/io/load_weights.h"
#include "tests/fuzz/checkpoint_files.h"
#include "tests/fuzz/input_file.h"

using namespace lockstep;

namespace {

constexpr std::int64_t kStep = 1000;

void write_files(const std::filesystem::path& folder, const fuzz::CheckpointFiles& files) {
  for (const std::string_view name : fuzz::kCheckpointFiles) {
    const auto found = files.find(std::string(name));
    if (found == files.end())
      std::filesystem::remove(folder / name);
    else
      std::ofstream(folder / name, std::ios::binary) << found->second;
  }
}

/// What verifying has to have seen.
void check_verified(const fuzz::CheckpointFiles& files, const io::CheckpointState& state) {
  const io::Manifest manifest = io::parse_manifest("manifest.json", files.at("manifest.json"));
  fuzz::require(state.step == manifest.step, "a state of another step than the manifest's");
  for (const auto& [name, entry] : manifest.files) {
    const std::string& content = files.at(name);
    bool is_right = content.size() == entry.bytes;
    if (!entry.sha256.empty()) {
      is_right = is_right && sha256_of(content) == entry.sha256;
    } else {  // the parts cover it
      std::uint64_t begin = 0;
      for (const io::ManifestPart& part : entry.parts) {
        is_right = is_right && sha256_of(content.substr(begin, part.end - begin)) == part.sha256;
        begin = part.end;
      }
      is_right = is_right && begin == content.size();
    }
    fuzz::require(is_right, name + " is not what the manifest says, and was accepted");
  }
  const std::string text = io::to_text(state);
  fuzz::require(io::to_text(io::parse_state("again.json", text)) == text,
                "the state changed when written again");
}

/// A model with a matrix and a vector, which the file may or may not hold.
void load_checkpoint_model(const std::filesystem::path& file) {
  std::vector<Parameter> model(2);
  model[0].name = "a";
  model[0].shape = {2, 3};
  model[1].name = "b";
  model[1].shape = {3};
  for (Parameter& parameter : model) parameter.file_layout = {parameter.shape, {}, parameter.shape};
  (void)io::load_weights(file.string(), model, {});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static const fuzz::InputFolder folder;
  static const std::filesystem::path checkpoint = folder.path() / io::checkpoint_name(kStep);
  std::filesystem::create_directories(checkpoint);
  const fuzz::CheckpointFiles files = fuzz::checkpoint_files(fuzz::as_text(data, bytes));
  write_files(checkpoint, files);
  std::optional<io::CheckpointState> state;
  fuzz::run_parser(bytes, [&] { state = io::verify_checkpoint(checkpoint); });
  if (state) check_verified(files, *state);
  bool found = false;
  fuzz::run_parser(bytes, [&] {
    std::vector<std::string> skipped_checkpoints;
    found = io::newest_checkpoint(folder.path(), skipped_checkpoints).has_value();
    fuzz::require(found == skipped_checkpoints.empty(),
                  "a checkpoint was passed over without a reason");
  });
  fuzz::require(found == (state && state->step == kStep), "verified, but not found");
  if (found)
    fuzz::run_parser(bytes, [&] { load_checkpoint_model(checkpoint / "model.safetensors"); });
  return 0;
}

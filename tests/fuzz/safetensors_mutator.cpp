// SPDX-License-Identifier: Apache-2.0
// Mutations of safetensors files: dtype, shape, offsets, names and number of the tensors, with a
// length before the header that fits it. Most of the results have tensors that fill the data
// exactly, as they must, so that the code that comes after the layout's check is reached.
#include <algorithm>

#include "tests/fuzz/mutation.h"

namespace {

using namespace lockstep::fuzz;

constexpr std::string_view kTypeNames[] = {
    "F32", "F64", "F16", "BF16", "I32", "I64", "I16", "I8", "U8", "BOOL", "F8_E4M3", "f32", ""};
constexpr std::uint64_t kTypeBytes[] = {4, 8, 2, 2, 4, 8, 2, 1, 1, 1};
/// Among them those of the target's model, and prefixes that loading removes.
const std::vector<std::string_view> kTensorWords = words_of(
    "a b module.a _orig_mod.b module._orig_mod.a transformer lm_head.weight h.0.attn.bias "
    "num_batches_tracked a.num_batches_tracked __metadata__ dtype shape data_offsets format "
    "pt F32 U8 BF16");
constexpr const char* kMetadata = "__metadata__";
constexpr std::uint64_t kMaxData = 4096;

struct TensorFile {
  Json header;
  Bytes data;
};

std::optional<TensorFile> read_file(const Bytes& input) {
  std::uint64_t bytes = 0;
  if (input.size() < sizeof bytes) return std::nullopt;
  std::memcpy(&bytes, input.data(), sizeof bytes);
  if (bytes > input.size() - sizeof bytes) return std::nullopt;
  const char* begin = reinterpret_cast<const char*>(input.data()) + sizeof bytes;
  std::optional<Json> header = read_json({begin, bytes});
  if (!header || !header->is_object()) return std::nullopt;
  return TensorFile{std::move(*header),
                    Bytes(begin + bytes, begin + (input.size() - sizeof bytes))};
}

Json tensor_entry(std::string_view type, std::vector<std::uint64_t> shape) {
  return {{"dtype", type}, {"shape", std::move(shape)}, {"data_offsets", {0, 0}}};
}

/// A file that the model of the target can load.
TensorFile fresh_file() {
  return {{{"a", tensor_entry("F32", {2, 3})}, {"b", tensor_entry("F32", {3})}}, Bytes(36)};
}

/// Bytes that dtype and shape of an entry need; nothing where they cannot be told or are too many.
std::optional<std::uint64_t> needed_bytes(const Json& entry) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape"))
    return std::nullopt;
  if (!entry["dtype"].is_string()) return std::nullopt;
  const auto name = entry["dtype"].get<std::string>();
  const auto type = std::find(std::begin(kTypeNames), std::end(kTypeNames), name);
  const auto index = std::size_t(type - std::begin(kTypeNames));
  if (index >= std::size(kTypeBytes) || !entry["shape"].is_array()) return std::nullopt;
  std::uint64_t bytes = kTypeBytes[index];
  for (const Json& extent : entry["shape"]) {
    if (!extent.is_number_unsigned()) return std::nullopt;
    const auto count = extent.get<std::uint64_t>();
    if (count > kMaxData || bytes * count > kMaxData) return std::nullopt;
    bytes *= count;
  }
  return bytes;
}

/// Places the tensors one after the other and makes the data as long as they need.
void resolve(TensorFile& file) {
  std::uint64_t at = 0;
  for (auto& [name, entry] : file.header.items()) {
    const std::optional<std::uint64_t> bytes = needed_bytes(entry);
    if (name == kMetadata || !bytes) continue;
    entry["data_offsets"] = {at, at + *bytes};
    at += *bytes;
  }
  file.data.resize(at, 0x5a);
}

void mutate_shape(Json& entry, Random& random) {
  constexpr std::uint64_t kExtents[] = {0, 1, 2, 3, 4, 5, 8, 16, 100};
  Json& shape = entry["shape"];
  if (!shape.is_array()) shape = Json::array();
  const std::uint64_t extent = random.one_in(4) ? extreme_number(2, random) : random.pick(kExtents);
  switch (shape.empty() ? 0 : random.below(3)) {
    case 0:
      shape.push_back(extent);
      break;
    case 1:
      shape.erase(shape.begin() + std::ptrdiff_t(random.below(shape.size())));
      break;
    default:
      shape[random.below(shape.size())] = extent;
  }
}

void mutate_offsets(Json& entry, Random& random) {
  Json& offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2) offsets = {0, 0};
  Json& offset = offsets[random.below(2)];
  offset = extreme_number(offset.is_number_unsigned() ? offset.get<std::uint64_t>() : 0, random);
}

void mutate_tensor(TensorFile& file, Random& random) {
  auto& members = file.header.get_ref<Json::object_t&>();
  const auto member = std::next(members.begin(), std::ptrdiff_t(random.below(members.size())));
  auto& [name, entry] = *member;
  if (name == kMetadata || !entry.is_object()) return mutate_json(entry, random, kTensorWords);
  switch (random.below(5)) {
    case 0:
      entry["dtype"] = random.pick(kTypeNames);
      break;
    case 1:
      mutate_offsets(entry, random);
      break;
    case 2: {
      const Json moved = entry;
      members.erase(member);
      file.header[std::string(random.pick(kTensorWords))] = moved;
      break;
    }
    default:
      mutate_shape(entry, random);
  }
}

void mutate_file(TensorFile& file, Random& random) {
  switch (file.header.empty() ? 0 : random.below(8)) {
    case 0:
      file.header[std::string(random.pick(kTensorWords))] =
          tensor_entry(random.pick(kTypeNames), {1 + random.below(4)});
      break;
    case 1: {
      auto& members = file.header.get_ref<Json::object_t&>();
      members.erase(members.begin() + std::ptrdiff_t(random.below(members.size())));
      break;
    }
    case 2:
      file.header[kMetadata][std::string(random.pick(kTensorWords))] = "pt";
      break;
    case 3:
      mutate_json(file.header, random, kTensorWords);
      break;
    case 4:
      file.data.resize(file.data.size() + random.below(9));
      if (!file.data.empty()) random.pick(file.data) ^= std::uint8_t(1 + random.below(255));
      break;
    default:
      mutate_tensor(file, random);
  }
}

Bytes bytes_of(const TensorFile& file, Random& random) {
  std::string header = json_text(file.header, random);
  if (random.one_in(8)) header.append(random.below(9), ' ');  // writers align the data with these
  std::uint64_t bytes = header.size();
  if (random.one_in(16)) bytes = extreme_number(bytes, random);
  Bytes result(sizeof bytes + header.size() + file.data.size());
  std::memcpy(result.data(), &bytes, sizeof bytes);
  const auto behind = std::copy(header.begin(), header.end(), result.begin() + sizeof bytes);
  std::copy(file.data.begin(), file.data.end(), behind);
  return result;
}

Bytes mutate_safetensors(const Bytes& input, Random& random) {
  std::optional<TensorFile> file = read_file(input);
  if (!file && !random.one_in(8)) return {};
  if (!file) file = fresh_file();
  const std::size_t changes = 1 + random.below(3);
  for (std::size_t i = 0; i < changes && file->header.is_object(); ++i) {
    Json& metadata = file->header;
    if (metadata.contains(kMetadata) && !metadata[kMetadata].is_object()) metadata.erase(kMetadata);
    mutate_file(*file, random);
  }
  if (file->header.is_object() && !random.one_in(4)) resolve(*file);
  return bytes_of(*file, random);
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data,
                                               std::size_t bytes,
                                               std::size_t max,
                                               unsigned int seed) {
  return mutate_half(data, bytes, max, seed, mutate_safetensors);
}

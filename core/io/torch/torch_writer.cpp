// SPDX-License-Identifier: Apache-2.0
#include "core/io/torch/torch_writer.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <set>
#include <string>

#include "core/io/output_file.h"
#include "core/io/torch/opcodes.h"
#include "core/io/torch/zip_writer.h"
#include "lockstep/error.h"
#include "lockstep/shape.h"

namespace lockstep::io::torch {
namespace {

/// Names in the archive begin with the name of a folder, which readers do not look at.
const std::string kFolder = "archive/";
/// PyTorch's version of the archive's layout: 3 is what it writes.
constexpr std::string_view kArchiveVersion = "3\n";

const char* storage_class(ElementType type) {
  switch (type) {
    case ElementType::f32:
      return "FloatStorage";
    case ElementType::f64:
      return "DoubleStorage";
    case ElementType::f16:
      return "HalfStorage";
    case ElementType::bf16:
      return "BFloat16Storage";
    case ElementType::i64:
      return "LongStorage";
    case ElementType::i32:
      return "IntStorage";
    case ElementType::i16:
      return "ShortStorage";
    case ElementType::i8:
      return "CharStorage";
    case ElementType::u8:
      return "ByteStorage";
    case ElementType::boolean:
      return "BoolStorage";
  }
  throw InternalError("element type without a storage");
}

/// Writes the opcodes of a pickle of protocol 2.
class Pickler {
 public:
  Pickler& code(unsigned char opcode) {
    text_ += char(opcode);
    return *this;
  }
  Pickler& global(const std::string& module, const std::string& name) {
    code(op::kGlobal);
    text_ += module + "\n" + name + "\n";
    return *this;
  }
  Pickler& text(const std::string& value) {
    return code(op::kBinUnicode).raw(std::uint32_t(value.size())).bytes(value);
  }
  Pickler& integer(std::int64_t value) {
    if (value >= INT32_MIN && value <= INT32_MAX) return code(op::kBinInt).raw(std::int32_t(value));
    return code(op::kLong1).raw(std::uint8_t(sizeof value)).raw(value);
  }
  Pickler& integers(std::span<const std::int64_t> values) {
    code(op::kMark);
    for (const std::int64_t value : values) integer(value);
    return code(op::kTuple);
  }
  Pickler& ordered_dict() {
    return global("collections", "OrderedDict").code(op::kEmptyTuple).code(op::kReduce);
  }
  template <typename T>
  Pickler& raw(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  const std::string& take() const { return text_; }

 private:
  Pickler& bytes(const std::string& value) {
    text_ += value;
    return *this;
  }
  std::string text_;
};

/// Elements from one to the next of each dimension, dense.
std::vector<std::int64_t> dense_stride(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> stride(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;)
    stride[d - 1] = stride[d] * std::max<std::int64_t>(shape[d], 1);
  return stride;
}

std::string pickle_of(std::span<const TensorView> tensors) {
  Pickler pickler;
  pickler.code(op::kProto).raw(std::uint8_t(2)).ordered_dict().code(op::kMark);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorView& tensor = tensors[i];
    pickler.text(tensor.name).global("torch._utils", "_rebuild_tensor_v2").code(op::kMark);
    pickler.code(op::kMark).text("storage").global("torch", storage_class(tensor.type));
    pickler.text(std::to_string(i)).text("cpu");
    pickler.integer(std::int64_t(tensor.data.size() / size_in_bytes(tensor.type)));
    pickler.code(op::kTuple).code(op::kBinPersId).integer(0);
    pickler.integers(tensor.shape).integers(dense_stride(tensor.shape));
    pickler.code(op::kNewFalse).ordered_dict().code(op::kTuple).code(op::kReduce);
  }
  return pickler.code(op::kSetItems).code(op::kStop).take();
}

}  // namespace

void write_state_dict(const std::filesystem::path& path, std::span<const TensorView> tensors) {
  std::set<std::string> names;
  for (const TensorView& tensor : tensors) check_tensor(path.string(), tensor, names);
  const auto text_bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  OutputFile out(path);
  ZipWriter zip(out);
  zip.add(kFolder + "data.pkl", text_bytes(pickle_of(tensors)));
  zip.add(kFolder + "byteorder", text_bytes("little"));
  for (std::size_t i = 0; i < tensors.size(); ++i)
    zip.add(fmt::format("{}data/{}", kFolder, i), tensors[i].data);
  zip.add(kFolder + "version", text_bytes(kArchiveVersion));
  zip.finish();
  out.finish();
}

}  // namespace lockstep::io::torch

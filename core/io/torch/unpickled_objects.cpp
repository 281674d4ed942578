// SPDX-License-Identifier: Apache-2.0
// The objects of state dicts: the only names that a pickle may ask for.
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/parameter_names.h"
#include "core/base/text/printable.h"
#include "core/io/torch/opcodes.h"
#include "core/io/torch/unpickler.h"

namespace lockstep::io::torch {
namespace {

constexpr std::size_t kMaxRank = 64;
constexpr std::size_t kMaxTensors = 1 << 16;

struct KnownGlobal {
  std::string_view module, name;
  Global global;
  ElementType type = {};
};
constexpr KnownGlobal kGlobals[] = {
    {"collections", "OrderedDict", Global::ordered_dict},
    {"torch._utils", "_rebuild_tensor", Global::rebuild_tensor},
    {"torch._utils", "_rebuild_tensor_v2", Global::rebuild_tensor_v2},
    {"torch._utils", "_rebuild_parameter", Global::rebuild_parameter},
    {"torch", "Size", Global::size},
    {"torch", "FloatStorage", Global::storage, ElementType::f32},
    {"torch", "DoubleStorage", Global::storage, ElementType::f64},
    {"torch", "HalfStorage", Global::storage, ElementType::f16},
    {"torch", "BFloat16Storage", Global::storage, ElementType::bf16},
    {"torch", "LongStorage", Global::storage, ElementType::i64},
    {"torch", "IntStorage", Global::storage, ElementType::i32},
    {"torch", "ShortStorage", Global::storage, ElementType::i16},
    {"torch", "CharStorage", Global::storage, ElementType::i8},
    {"torch", "ByteStorage", Global::storage, ElementType::u8},
    {"torch", "BoolStorage", Global::storage, ElementType::boolean}};

constexpr std::string_view kDtypes[] = {"float32",
                                        "float",
                                        "float64",
                                        "double",
                                        "float16",
                                        "half",
                                        "bfloat16",
                                        "int64",
                                        "long",
                                        "int32",
                                        "int",
                                        "int16",
                                        "short",
                                        "int8",
                                        "uint8",
                                        "bool"};

/// How messages name opcodes that make objects of any class, or read what is not a tensor.
const char* name_of_opcode(unsigned char opcode) {
  switch (opcode) {
    case 'i':
      return "an instance of a class (INST)";
    case 'o':
      return "an instance of a class (OBJ)";
    case 0x81:
    case 0x92:
      return "a new object (NEWOBJ)";
    case 0x82:
    case 0x83:
    case 0x84:
      return "an extension (EXT)";
    case 0x8f:
    case 0x90:
    case 0x91:
      return "a set";
    case 0x96:
      return "a bytearray";
    case 0x97:
    case 0x98:
      return "a buffer from elsewhere";
    default:
      return nullptr;
  }
}

}  // namespace

void Unpickler::make_object(unsigned char opcode) {
  switch (opcode) {
    case op::kGlobal: {
      const std::string_view module = take_line();
      return push_global(module, take_line());
    }
    case op::kStackGlobal: {
      const PickleValue &name = value(pop()), &module = value(pop());
      if (name.kind != Kind::text || module.kind != Kind::text)
        malformed("names a global by a value that is not a string");
      return push_global(module.text, name.text);
    }
    case op::kBinPersId:
      return push_storage();
    case op::kBuild:
      return build();
    case op::kReduce:
      return reduce();
    default:
      if (const char* name = name_of_opcode(opcode)) refuse(name);
      malformed(fmt::format("has the opcode 0x{:02x}, which state dicts do not have", opcode));
  }
}

void Unpickler::push_global(std::string_view module, std::string_view name) {
  const bool dtype = module == "torch" && std::ranges::find(kDtypes, name) != std::end(kDtypes);
  const auto* known = std::ranges::find_if(kGlobals, [&](const KnownGlobal& candidate) {
    return candidate.module == module && candidate.name == name;
  });
  if (!dtype && known == std::end(kGlobals)) refuse(fmt::format("{}.{}", module, name));
  push(make(Kind::global));
  PickleValue& made = value(top());
  made.global = dtype ? Global::dtype : known->global;
  if (!dtype) made.type = known->type;
}

/// ("storage", class, key, device, elements), and of old files (name, first, elements) of a part,
/// or None.
void Unpickler::push_storage() {
  const std::vector<ValueId>& id = value(pop()).items;
  const auto part = [&](std::size_t i) -> const PickleValue& { return value(id[i]); };
  if (id.size() < 5 || id.size() > 6 || part(0).text != "storage" || part(1).kind != Kind::global ||
      part(1).global != Global::storage || part(2).kind != Kind::text)
    malformed("has a persistent id that is not a storage");
  PickledStorage storage{.key = part(2).text, .type = part(1).type};
  storage.whole = storage.elems = integer(id[4], "elements of a storage");
  if (id.size() == 6 && part(5).kind == Kind::tuple) {
    const std::vector<ValueId>& view = part(5).items;
    if (view.size() != 3) malformed("has a view of a value that is not a storage");
    storage.first = integer(view[1], "place of a view");
    storage.elems = integer(view[2], "elements of a view");
  }
  if (storage.whole < 0 || storage.first < 0 || storage.elems < 0 ||
      storage.first > storage.whole - storage.elems)
    malformed("has a view outside of its storage");
  charge(3 * sizeof storage);
  result_.storages_.push_back(storage);
  push(make(Kind::storage));
  value(top()).number = std::int64_t(result_.storages_.size() - 1);
}

/// Sets attributes, as a state dict's _metadata: of no use here.
void Unpickler::build() {
  pop();
  if (value(top()).kind != Kind::dict)
    malformed("sets attributes of a value that is not an OrderedDict");
}

void Unpickler::reduce() {
  const PickleValue& arguments = value(pop());
  const PickleValue& callee = value(pop());
  if (callee.kind != Kind::global || arguments.kind != Kind::tuple)
    malformed("calls a value that is not a function");
  const std::vector<ValueId>& given = arguments.items;
  switch (callee.global) {
    case Global::ordered_dict:
      return push(ordered_dict(given));
    case Global::rebuild_tensor:
      return push(tensor(given, 4));
    case Global::rebuild_tensor_v2:
      return push(tensor(given, 6));
    case Global::rebuild_parameter:
      if (given.empty() || value(given[0]).kind != Kind::tensor)
        malformed("makes a parameter of a value that is not a tensor");
      return push(given[0]);
    case Global::size:
      if (given.size() != 1 || value(given[0]).kind != Kind::tuple)
        malformed("makes a torch.Size of a value that is not a tuple");
      return push(given[0]);
    case Global::dtype:
    case Global::storage:
      refuse("a call of a storage or dtype");
  }
}

/// Python 2 hands its items over as a list of pairs.
ValueId Unpickler::ordered_dict(const std::vector<ValueId>& arguments) {
  const ValueId dict = make(Kind::dict);
  if (arguments.empty()) return dict;
  if (arguments.size() > 1 || value(arguments[0]).kind != Kind::list)
    malformed("makes an OrderedDict of a value that is not a list");
  for (const ValueId pair : value(arguments[0]).items) {
    const std::vector<ValueId>& items = value(pair).items;
    if (items.size() != 2) malformed("makes an OrderedDict of values that are not pairs");
    charge(2 * kPickleItemBytes);
    value(dict).items.insert(value(dict).items.end(), items.begin(), items.end());
  }
  return dict;
}

/// (storage, place of the first element in it, shape, stride, ...)
ValueId Unpickler::tensor(const std::vector<ValueId>& arguments, std::size_t at_least) {
  if (arguments.size() < at_least || value(arguments[0]).kind != Kind::storage)
    malformed("makes a tensor of a value that is not a storage");
  if (result_.tensors_.size() == kMaxTensors)
    malformed(fmt::format("has more than {} tensors", kMaxTensors));
  PickledTensor made{.storage = std::size_t(value(arguments[0]).number),
                     .first = integer(arguments[1], "place of a tensor"),
                     .shape = extents(arguments[2]),
                     .stride = extents(arguments[3])};
  check_view(made);
  charge(3 * sizeof made + 2 * made.shape.size() * sizeof(std::int64_t) + 4 * kPickleItemBytes);
  result_.tensors_.push_back(std::move(made));
  const ValueId id = make(Kind::tensor);
  value(id).number = std::int64_t(result_.tensors_.size() - 1);
  return id;
}

void Unpickler::check_view(PickledTensor& tensor) const {
  const PickledStorage& storage = result_.storages_[tensor.storage];
  if (tensor.first < 0 || tensor.shape.size() != tensor.stride.size())
    malformed("has a tensor with a shape and a stride that do not match");
  std::int64_t elems = 1, last = tensor.first;
  bool too_large = false;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    std::int64_t reach = 0;
    too_large = too_large || __builtin_mul_overflow(elems, tensor.shape[d], &elems);
    if (tensor.shape[d] == 1) tensor.stride[d] = 0;  // any number may stand there
    if (tensor.shape[d] == 0) continue;
    too_large = too_large ||
                __builtin_mul_overflow(tensor.shape[d] - 1, tensor.stride[d], &reach) ||
                __builtin_add_overflow(last, reach, &last);
  }
  const bool empty = std::ranges::find(tensor.shape, 0) != tensor.shape.end();
  if (tensor.first > storage.elems || (!empty && (too_large || last >= storage.elems)))
    throw DataError(
        fmt::format("{}: a tensor of shape [{}] and stride [{}] leaves storage {}, "
                    "which has {} elements",
                    as_written(file_),
                    fmt::join(tensor.shape, ", "),
                    fmt::join(tensor.stride, ", "),
                    as_written(printable(storage.key)),
                    storage.elems));
  if (!empty && elems > storage.elems)
    throw DataError(fmt::format("{}: a tensor of shape [{}] repeats the {} elements of storage {}",
                                as_written(file_),
                                fmt::join(tensor.shape, ", "),
                                storage.elems,
                                as_written(printable(storage.key))),
                    "save it with .contiguous()");
  tensor.first += storage.first;
}

std::vector<std::int64_t> Unpickler::extents(ValueId tuple) const {
  const PickleValue& given = value(tuple);
  if (given.kind != Kind::tuple || given.items.size() > kMaxRank)
    malformed("has a shape or stride that is not a tuple of numbers");
  std::vector<std::int64_t> result;
  for (const ValueId item : given.items) {
    result.push_back(integer(item, "shape or stride"));
    if (result.back() < 0) malformed("has a negative shape or stride");
  }
  return result;
}

std::int64_t Unpickler::integer(ValueId id, const char* what) const {
  if (value(id).kind != Kind::integer)
    malformed(fmt::format("has a {} that is not a whole number", what));
  return value(id).number;
}

}  // namespace lockstep::io::torch

// SPDX-License-Identifier: Apache-2.0
#include "core/io/torch/unpickler.h"

#include <algorithm>
#include <cstring>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/text/printable.h"
#include "core/io/torch/opcodes.h"

namespace lockstep::io::torch {
namespace {

constexpr std::uint64_t kSpareBytes = std::uint64_t{32} << 20;
// At least what an entry of the memo takes.
constexpr std::size_t kMemoBytes = 64;
constexpr int kNewestProtocol = 5;

}  // namespace

Pickle::Pickle(const std::string& file, std::string_view bytes) {
  Unpickler(file, bytes, *this).run();
}

Unpickler::Unpickler(const std::string& file, std::string_view bytes, Pickle& result)
    : file_(file), bytes_(bytes), result_(result), max_charged_(bytes.size() + kSpareBytes) {}

void Unpickler::run() {
  for (;;) {
    const auto opcode = static_cast<unsigned char>(take(1).front());
    if (opcode == op::kStop) break;
    if (!make_constant(opcode) && !make_container(opcode) && !use_memo(opcode)) make_object(opcode);
  }
  result_.root_ = pop();
  result_.bytes_ = at_;
}

bool Unpickler::make_constant(unsigned char opcode) {
  switch (opcode) {
    case op::kProto:
      if (const int protocol = take_number<std::uint8_t>(); protocol > kNewestProtocol)
        malformed(fmt::format("is of protocol {}, newer than {}", protocol, kNewestProtocol));
      return true;
    case op::kFrame:
      take(8);
      return true;
    case op::kNone:
      push(make(Kind::none));
      return true;
    case op::kNewTrue:
    case op::kNewFalse:
      push(make(Kind::boolean));
      value(top()).number = opcode == op::kNewTrue;
      return true;
    case op::kBinInt:
      push_integer(take_number<std::int32_t>());
      return true;
    case op::kBinInt1:
      push_integer(take_number<std::uint8_t>());
      return true;
    case op::kBinInt2:
      push_integer(take_number<std::uint16_t>());
      return true;
    case op::kLong1:
      if (const std::string_view digits = take_sized<std::uint8_t>(); digits.size() <= 8)
        push_integer(to_integer(digits));
      else
        push_text(Kind::other, digits);
      return true;
    case op::kBinFloat:
      push_text(Kind::other, take(8));
      return true;
    case op::kShortBinUnicode:
    case op::kShortBinString:  // Python 2's str
      push_text(Kind::text, take_sized<std::uint8_t>());
      return true;
    case op::kBinUnicode:
    case op::kBinString:
      push_text(Kind::text, take_sized<std::uint32_t>());
      return true;
    case op::kBinUnicode8:
      push_text(Kind::text, take_sized<std::uint64_t>());
      return true;
    case op::kShortBinBytes:
      push_text(Kind::other, take_sized<std::uint8_t>());
      return true;
    case op::kBinBytes:
      push_text(Kind::other, take_sized<std::uint32_t>());
      return true;
    default:
      return false;
  }
}

bool Unpickler::make_container(unsigned char opcode) {
  switch (opcode) {
    case op::kMark:
      charge(2 * kPickleItemBytes);
      marks_.push_back(stack_.size());
      return true;
    case op::kEmptyTuple:
      push_tuple({});
      return true;
    case op::kTuple1:
    case op::kTuple2:
    case op::kTuple3: {
      std::vector<ValueId> items(std::size_t(opcode - op::kTuple1) + 1);
      for (std::size_t i = items.size(); i-- > 0;) items[i] = pop();
      push_tuple(std::move(items));
      return true;
    }
    case op::kTuple:
      push_tuple(pop_to_mark());
      return true;
    case op::kEmptyList:
      push(make(Kind::list));
      return true;
    case op::kEmptyDict:
      push(make(Kind::dict));
      return true;
    case op::kAppend: {
      const ValueId item = pop();
      append({item});
      return true;
    }
    case op::kAppends:
      append(pop_to_mark());
      return true;
    case op::kSetItem: {
      const ValueId item = pop(), key = pop();
      set_items({key, item});
      return true;
    }
    case op::kSetItems:
      set_items(pop_to_mark());
      return true;
    default:
      return false;
  }
}

bool Unpickler::use_memo(unsigned char opcode) {
  switch (opcode) {
    case op::kBinGet:
      get(take_number<std::uint8_t>());
      return true;
    case op::kLongBinGet:
      get(take_number<std::uint32_t>());
      return true;
    case op::kBinPut:
      put(take_number<std::uint8_t>());
      return true;
    case op::kLongBinPut:
      put(take_number<std::uint32_t>());
      return true;
    case op::kMemoize:
      put(std::uint32_t(memo_.size()));
      return true;
    case op::kPop:
      if (!marks_.empty() && marks_.back() == stack_.size())
        marks_.pop_back();
      else
        pop();
      return true;
    case op::kPopMark:
      pop_to_mark();
      return true;
    default:
      return false;
  }
}

std::string_view Unpickler::take(std::size_t bytes) {
  if (bytes > bytes_.size() - at_)
    throw PickleCutOff(fmt::format("{}: the pickle ends in the middle", file_),
                       "the file is damaged or cut short: copy or download it again");
  at_ += bytes;
  return bytes_.substr(at_ - bytes, bytes);
}

std::string_view Unpickler::take_line() {
  const std::size_t end = bytes_.find('\n', at_);
  const std::string_view line = take((end == bytes_.npos ? bytes_.size() : end) - at_);
  take(1);
  return line;
}

template <typename T>
T Unpickler::take_number() {
  T number;
  std::memcpy(&number, take(sizeof number).data(), sizeof number);
  return number;
}

template <typename Length>
std::string_view Unpickler::take_sized() {
  return take(take_number<Length>());
}

std::int64_t Unpickler::to_integer(std::string_view little_endian) const {
  if (little_endian.empty()) return 0;
  std::int64_t number = static_cast<signed char>(little_endian.back()) < 0 ? -1 : 0;
  std::memcpy(&number, little_endian.data(), little_endian.size());
  return number;
}

void Unpickler::charge(std::size_t bytes) {
  charged_ += bytes;
  LOCKSTEP_CHECK(charged_ <= max_charged_,
                 DataError,
                 "{}: the pickle holds too many values for its size: they would take more than {} "
                 "bytes of memory",
                 as_written(file_),
                 max_charged_);
}

ValueId Unpickler::make(Kind kind) {
  charge(sizeof(PickleValue));
  result_.values_.push_back({});
  result_.values_.back().kind = kind;
  return ValueId(result_.values_.size() - 1);
}

void Unpickler::push(ValueId id) {
  if (stack_.size() == stack_.capacity()) charge(kPickleItemBytes * (stack_.size() + 1));
  stack_.push_back(id);
}

void Unpickler::push_integer(std::int64_t number) {
  push(make(Kind::integer));
  value(top()).number = number;
}

void Unpickler::push_text(Kind kind, std::string_view text) {
  push(make(kind));
  value(top()).text = text;
}

ValueId Unpickler::pop() {
  const ValueId id = top();
  stack_.pop_back();
  return id;
}

ValueId Unpickler::top() const {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back()))
    malformed("takes a value from an empty stack");
  return stack_.back();
}

std::vector<ValueId> Unpickler::pop_to_mark() {
  if (marks_.empty()) malformed("takes a mark that was not set");
  const auto first = stack_.begin() + std::ptrdiff_t(marks_.back());
  charge(kPickleItemBytes * std::size_t(stack_.end() - first));
  std::vector<ValueId> items(first, stack_.end());
  stack_.erase(first, stack_.end());
  marks_.pop_back();
  return items;
}

void Unpickler::push_tuple(std::vector<ValueId> items) {
  charge(kPickleItemBytes * items.size());
  const ValueId id = make(Kind::tuple);
  value(id).items = std::move(items);
  push(id);
}

void Unpickler::append(std::vector<ValueId> items) {
  PickleValue& list = value(top());
  if (list.kind != Kind::list) malformed("appends to a value that is not a list");
  charge(kPickleItemBytes * items.size());
  list.items.insert(list.items.end(), items.begin(), items.end());
}

void Unpickler::set_items(std::vector<ValueId> items) {
  PickleValue& dict = value(top());
  if (dict.kind != Kind::dict || items.size() % 2 != 0)
    malformed("sets an item of a value that is not a dict");
  charge(kPickleItemBytes * items.size());
  dict.items.insert(dict.items.end(), items.begin(), items.end());
}

void Unpickler::put(std::uint32_t index) {
  if (!memo_.contains(index)) charge(kMemoBytes);
  memo_[index] = top();
}

void Unpickler::get(std::uint32_t index) {
  const auto found = memo_.find(index);
  if (found == memo_.end()) malformed(fmt::format("gets memo {}, which was not put", index));
  push(found->second);
}

void Unpickler::malformed(const std::string& why) const {
  throw DataError(
      fmt::format("{}: the pickle is malformed at byte {}: it {}", as_written(file_), at_, why),
      "the file is damaged, or was not written by torch.save()");
}

void Unpickler::refuse(const std::string& name) const {
  throw DataError(
      fmt::format("{}: the pickle asks for {}, which is not a tensor; nothing of it was run",
                  as_written(file_),
                  as_written(printable(name))),
      "only state dicts are read: torch.save(model.state_dict(), FILE) in Python writes one");
}

}  // namespace lockstep::io::torch

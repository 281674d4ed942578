// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/io/torch/pickle.h"

namespace lockstep::io::torch {

/// Of memory, at least what an entry of a vector takes, which may just be growing.
inline constexpr std::size_t kPickleItemBytes = 12;

/// The stack machine that reads a pickle into a Pickle.
class Unpickler {
 public:
  Unpickler(const std::string& file, std::string_view bytes, Pickle& result);
  void run();

 private:
  using Kind = PickleValue::Kind;

  // Each of these three knows some of the opcodes, and returns false for the others.
  bool make_constant(unsigned char opcode);
  bool make_container(unsigned char opcode);
  bool use_memo(unsigned char opcode);
  void make_object(unsigned char opcode);

  std::string_view take(std::size_t bytes);
  std::string_view take_line();
  template <typename T>
  T take_number();
  /// A text or bytes with its length in front, of type Length.
  template <typename Length>
  std::string_view take_sized();
  std::int64_t to_integer(std::string_view little_endian) const;

  void charge(std::size_t bytes);
  ValueId make(Kind kind);
  void push(ValueId id);
  void push_integer(std::int64_t number);
  void push_text(Kind kind, std::string_view text);
  ValueId pop();
  ValueId top() const;
  /// What lies above the last mark, which goes with it.
  std::vector<ValueId> pop_to_mark();
  PickleValue& value(ValueId id) { return result_.values_[id]; }
  const PickleValue& value(ValueId id) const { return result_.values_[id]; }

  void push_tuple(std::vector<ValueId> items);
  void append(std::vector<ValueId> items);
  void set_items(std::vector<ValueId> items);
  void put(std::uint32_t index);
  void get(std::uint32_t index);
  void push_global(std::string_view module, std::string_view name);
  void push_storage();
  void build();
  void reduce();
  ValueId ordered_dict(const std::vector<ValueId>& arguments);
  ValueId tensor(const std::vector<ValueId>& arguments, std::size_t at_least);
  void check_view(PickledTensor& tensor) const;
  std::vector<std::int64_t> extents(ValueId tuple) const;
  std::int64_t integer(ValueId id, const char* what) const;
  [[noreturn]] void malformed(const std::string& why) const;
  [[noreturn]] void refuse(const std::string& name) const;

  std::string file_;
  std::string_view bytes_;
  std::size_t at_ = 0;
  Pickle& result_;
  std::vector<ValueId> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint32_t, ValueId> memo_;
  std::uint64_t charged_ = 0, max_charged_;
};

}  // namespace lockstep::io::torch

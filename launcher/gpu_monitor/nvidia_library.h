// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep {

/// A shared library opened while the program runs. It stays open: the driver keeps threads.
class NvidiaLibrary {
 public:
  /// From `folder`, or where the dynamic linker looks.
  NvidiaLibrary(const std::string& folder, const std::string& file);

  bool opened() const { return handle_ != nullptr; }
  const std::string& error() const { return error_; }
  /// There is no such file, which is another thing than one that cannot be opened.
  bool missing() const { return missing_; }
  /// The file that was opened, links followed.
  std::string path() const;

  /// Calls the function `name` as int(arguments...); -1 where the library lacks it.
  template <typename... Arguments>
  int call(const char* name, Arguments... arguments) const {
    const auto called = function<int(Arguments...)>(name);
    return called != nullptr ? called(arguments...) : -1;
  }

  /// The function `name`; null where the library lacks it.
  template <typename Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(address_of(name));
  }

 private:
  void* address_of(const char* name) const;

  void* handle_ = nullptr;
  std::string error_;
  bool missing_ = false;
};

}  // namespace lockstep

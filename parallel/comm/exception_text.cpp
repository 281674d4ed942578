// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/exception_text.h"

#include <filesystem>
#include <fmt/format.h>
#include <new>

#include "core/base/file_kind.h"
#include "core/base/parameter_names.h"
#include "core/host/failed_allocation.h"

namespace lockstep {

ExceptionText text_of(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& e) {
    return {e.what(), e.hint(), e.exit_code()};
  } catch (const std::bad_alloc&) {
    // The numbers in the hint: ranks that meet the same error in other numbers say it once.
    return {"out of memory on the host",
            name_parameters("use a smaller `micro_batch` or fewer ranks a host") +
                failed_allocation_text(),
            ExitCode::out_of_memory};
  } catch (const std::filesystem::filesystem_error& e) {
    return {e.path1().empty() ? std::string(e.what())
                              : fmt::format("{}: {}", e.path1().string(), e.code().message()),
            read_hint(e.code().value()),
            ExitCode::environment};
  } catch (const std::exception& e) {
    return {e.what(), {}, ExitCode::error};
  } catch (...) {
    return {"unknown exception", "please report this", ExitCode::error};
  }
}

}  // namespace lockstep

# oneDNN as the imported target OneDNN::dnnl. (The packaged dnnl-config.cmake asks for OpenCL's
# development files, which the CPU engine does not need.)
find_path(OneDNN_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
find_library(OneDNN_LIBRARY dnnl)
if(OneDNN_INCLUDE_DIR)
  file(STRINGS ${OneDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h lines REGEX "define DNNL_VERSION_(MAJOR|MINOR|PATCH)")
  string(REGEX REPLACE "[^0-9;]" "" numbers "${lines}")
  string(REPLACE ";" "." OneDNN_VERSION "${numbers}")
endif()
# Headers of one version with the library of another compile, and break when the program runs.
set(OneDNN_LIBRARY_FITS ON)
if(OneDNN_INCLUDE_DIR AND OneDNN_LIBRARY)
  file(REAL_PATH ${OneDNN_LIBRARY} file)
  string(REGEX MATCH "\\.so\\.([0-9]+)" found "${file}")
  set(major "${CMAKE_MATCH_1}")
  if(found AND NOT OneDNN_VERSION MATCHES "^${major}\\.")
    set(OneDNN_LIBRARY_FITS OFF)
    set(OneDNN_FOUND_INSTEAD
      "headers of ${OneDNN_VERSION} in ${OneDNN_INCLUDE_DIR}, but ${file} is of ${major}; take both of one version: -DOneDNN_INCLUDE_DIR=..., -DOneDNN_LIBRARY=...")
  endif()
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDNN
  REQUIRED_VARS OneDNN_LIBRARY OneDNN_INCLUDE_DIR OneDNN_LIBRARY_FITS VERSION_VAR OneDNN_VERSION HANDLE_VERSION_RANGE)
if(OneDNN_FOUND AND NOT TARGET OneDNN::dnnl)
  add_library(OneDNN::dnnl UNKNOWN IMPORTED)
  set_target_properties(OneDNN::dnnl PROPERTIES
    IMPORTED_LOCATION ${OneDNN_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${OneDNN_INCLUDE_DIR})
endif()

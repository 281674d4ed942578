# lockstep_library(NAME FOLDERS... [HEADERS ...] [DEPENDS ...] [PRIVATE_DEPENDS ...]): a static library of every .cpp in
# the given folders of this directory. HEADERS: those of include/lockstep whose functions it has, without ".h"; by these
# tests/lint/check_rooms.py knows who may include them. It is installed for users of the C++ interface, unless it is the
# program's.
function(lockstep_library name)
  cmake_parse_arguments(ARG "" "" "FOLDERS;HEADERS;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  set(sources)
  foreach(header ${ARG_HEADERS})
    list(APPEND sources ${PROJECT_SOURCE_DIR}/include/lockstep/${header}.h)
  endforeach()
  foreach(folder ${ARG_FOLDERS})
    file(GLOB found CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp)
    list(APPEND sources ${found})
  endforeach()
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE_DEPENDS}
    $<BUILD_INTERFACE:lockstep_warnings>)
  lockstep_installed(${name})
endfunction()

function(lockstep_installed name)
  if(NOT CMAKE_CURRENT_SOURCE_DIR STREQUAL "${PROJECT_SOURCE_DIR}/launcher")
    set_property(GLOBAL APPEND PROPERTY LOCKSTEP_LIBRARIES ${name})
  endif()
endfunction()

# lockstep_group(NAME LIBRARIES...): all of these, and what they depend on, under one name.
function(lockstep_group name)
  add_library(${name} INTERFACE)
  target_link_libraries(${name} INTERFACE ${ARGN})
  lockstep_installed(${name})
endfunction()

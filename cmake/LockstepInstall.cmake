# What a user of the C++ interface links, and how it is installed.
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY LOCKSTEP_LIBRARIES)

# Lockstep::lockstep, the same name in this tree and from find_package(Lockstep).
add_library(lockstep_interface INTERFACE)
add_library(Lockstep::lockstep ALIAS lockstep_interface)
set_target_properties(lockstep_interface PROPERTIES EXPORT_NAME lockstep)
target_compile_features(lockstep_interface INTERFACE cxx_std_20)
target_include_directories(lockstep_interface INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(lockstep_interface INTERFACE ${libraries})

foreach(library ${libraries})
  string(REPLACE "lockstep_" "" short_name ${library})
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${short_name})
endforeach()

# Two components: runtime is the program with its pages, development what C++ programs are compiled with.
install(TARGETS lockstep_interface ${libraries} EXPORT LockstepLibraries
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
if(TARGET lockstep)
  install(TARGETS lockstep RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
  install(CODE "set(PROGRAM \"$<TARGET_FILE:lockstep>\")
    set(FOLDER \"${PROJECT_BINARY_DIR}/pages\")
    set(DATA \"${CMAKE_INSTALL_DATADIR}\")
    set(MAN \"${CMAKE_INSTALL_MANDIR}\")" COMPONENT runtime)
  install(SCRIPT cmake/LockstepInstallPages.cmake COMPONENT runtime)
endif()

install(DIRECTORY include/lockstep DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
  FILES_MATCHING PATTERN "*.h")

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Lockstep)
install(EXPORT LockstepLibraries NAMESPACE Lockstep:: DESTINATION ${package_folder} COMPONENT development)
configure_package_config_file(cmake/LockstepConfig.cmake.in ${PROJECT_BINARY_DIR}/LockstepConfig.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/LockstepConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/LockstepConfig.cmake
  ${PROJECT_BINARY_DIR}/LockstepConfigVersion.cmake
  cmake/FindOneDNN.cmake
  DESTINATION ${package_folder} COMPONENT development)

install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime FILES_MATCHING PATTERN "*.md" PATTERN "*.png")
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development FILES_MATCHING PATTERN "*.cpp"
  PATTERN slurm EXCLUDE)

include(LockstepPackages)

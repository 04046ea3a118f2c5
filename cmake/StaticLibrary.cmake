find_package(PkgConfig REQUIRED)

# sluice_static_library(<target> <pkg-config name>): a library of the distribution as an imported
# target, as archives, so that what is built on one distribution runs on another that has other
# versions of the shared library; as shared libraries where there are no archives. Not for a
# shared library of ours: Debian's libre2.a has thread-local variables that do not fit into one.
function(sluice_static_library target package)
  pkg_check_modules(${target} REQUIRED QUIET ${package})
  set(files)
  foreach(name ${${target}_STATIC_LIBRARIES})
    if(name MATCHES "^(c|m|pthread|dl|rt)$")  # of the C library, which stays the target's own
      list(APPEND files ${name})
      continue()
    endif()
    find_library(${target}_${name}_FILE NAMES lib${name}.a ${name} REQUIRED
      HINTS ${${target}_STATIC_LIBRARY_DIRS})
    mark_as_advanced(${target}_${name}_FILE)
    list(APPEND files ${${target}_${name}_FILE})
  endforeach()
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} INTERFACE ${${target}_STATIC_INCLUDE_DIRS})
  target_link_libraries(${target} INTERFACE ${files} Threads::Threads)
endfunction()

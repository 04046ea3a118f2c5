find_package(PkgConfig REQUIRED)

# sluice_static_library(<target> <pkg-config name>): a library of the distribution as an imported
# target, as archives, so that what is built on one distribution runs on another that has other
# versions of the shared library; as shared libraries where there are no archives. A shared library
# of ours gets shared ones: Debian's libre2.a has thread-local variables that do not fit into one.
function(sluice_static_library target package)
  pkg_check_modules(${target} REQUIRED QUIET ${package})
  set(archives)
  set(shared)
  foreach(name ${${target}_STATIC_LIBRARIES})
    if(name MATCHES "^(c|m|pthread|dl|rt)$")  # of the C library, which stays the target's own
      list(APPEND archives ${name})
      list(APPEND shared ${name})
      continue()
    endif()
    find_library(${target}_${name}_FILE NAMES lib${name}.a ${name} REQUIRED
      HINTS ${${target}_STATIC_LIBRARY_DIRS})
    find_library(${target}_${name}_SHARED NAMES ${name} lib${name}.a REQUIRED
      HINTS ${${target}_STATIC_LIBRARY_DIRS})
    mark_as_advanced(${target}_${name}_FILE ${target}_${name}_SHARED)
    list(APPEND archives ${${target}_${name}_FILE})
    list(APPEND shared ${${target}_${name}_SHARED})
  endforeach()
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} INTERFACE ${${target}_STATIC_INCLUDE_DIRS})
  set(in_shared $<STREQUAL:$<TARGET_PROPERTY:TYPE>,SHARED_LIBRARY>)
  target_link_libraries(${target} INTERFACE "$<IF:${in_shared},${shared},${archives}>"
    Threads::Threads)
endfunction()

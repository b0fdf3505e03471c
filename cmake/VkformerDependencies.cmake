# What the library needs. Included by the build and, for a static library, by the installed package, so the two cannot differ.
# The Vulkan loader is not here: it is opened at run time or passed in by the application.
include(CMakeFindDependencyMacro)

find_dependency(VulkanHeaders CONFIG)
find_dependency(Threads)
find_dependency(nlohmann_json)
find_dependency(PkgConfig)

# Packages without a CMake config of their own; every name becomes an imported target PkgConfig::<NAME>. vkformer.pc and the Debian package
# of a static library name the same ones: the global properties VKFORMER_PKG_CONFIG_MODULES and VKFORMER_DEBIAN_PACKAGES.
function(vkformer_pkg_config name module debian_package)
    if(TARGET PkgConfig::${name})
        return()
    endif()
    pkg_check_modules(${name} QUIET IMPORTED_TARGET GLOBAL ${module})
    if(NOT ${name}_FOUND)
        message(FATAL_ERROR "vkformer: pkg-config finds no ${module}. On Debian: apt-get install ${debian_package}")
    endif()
    set_property(GLOBAL APPEND PROPERTY VKFORMER_PKG_CONFIG_MODULES ${module})
    set_property(GLOBAL APPEND PROPERTY VKFORMER_DEBIAN_PACKAGES ${debian_package})
endfunction()

vkformer_pkg_config(VKFORMER_UTF8PROC libutf8proc libutf8proc-dev)
vkformer_pkg_config(VKFORMER_PCRE2 libpcre2-8 libpcre2-dev)
vkformer_pkg_config(VKFORMER_BLAS openblas libopenblas-dev)
vkformer_pkg_config(VKFORMER_ZLIB zlib zlib1g-dev)
vkformer_pkg_config(VKFORMER_LZMA liblzma liblzma-dev)
vkformer_pkg_config(VKFORMER_PNG libpng libpng-dev)
vkformer_pkg_config(VKFORMER_JPEG libjpeg libjpeg62-turbo-dev)

# Not through pkg-config: Debian 13's sentencepiece.pc asks for protobuf-lite.pc, which its package does not depend on.
if(NOT TARGET vkformer_sentencepiece)
    find_library(VKFORMER_SENTENCEPIECE_LIBRARY sentencepiece)
    find_path(VKFORMER_SENTENCEPIECE_INCLUDE_DIR sentencepiece_processor.h)
    mark_as_advanced(VKFORMER_SENTENCEPIECE_LIBRARY VKFORMER_SENTENCEPIECE_INCLUDE_DIR)
    if(NOT VKFORMER_SENTENCEPIECE_LIBRARY OR NOT VKFORMER_SENTENCEPIECE_INCLUDE_DIR)
        message(FATAL_ERROR "vkformer: no sentencepiece. On Debian: apt-get install libsentencepiece-dev")
    endif()
    add_library(vkformer_sentencepiece UNKNOWN IMPORTED GLOBAL)
    set_target_properties(vkformer_sentencepiece PROPERTIES
        IMPORTED_LOCATION ${VKFORMER_SENTENCEPIECE_LIBRARY}
        INTERFACE_INCLUDE_DIRECTORIES ${VKFORMER_SENTENCEPIECE_INCLUDE_DIR})
endif()

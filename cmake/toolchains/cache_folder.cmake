# vkformer_cache_dir: where the scripts put what they make for builds, as scripts/debian_source.sh has it.
if(DEFINED ENV{XDG_CACHE_HOME} AND NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
    set(vkformer_cache_dir $ENV{XDG_CACHE_HOME}/vkformer)
else()
    set(vkformer_cache_dir $ENV{HOME}/.cache/vkformer)
endif()

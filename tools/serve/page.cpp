// SPDX-License-Identifier: MIT
#include "serve/page.hpp"

namespace vkformer::serve {
namespace {

// Each a file as a raw string.
constexpr std::string_view kHtml =
#include "serve_page/page.html.inc"
    ;
constexpr std::string_view kStyle =
#include "serve_page/page.css.inc"
    ;
constexpr std::string_view kScript =
#include "serve_page/page.js.inc"
    ;
constexpr std::string_view kIcon =
#include "serve_page/page.svg.inc"
    ;

constexpr PageFile kFiles[] = {{"/", "text/html; charset=utf-8", kHtml},
                               {"/page.css", "text/css; charset=utf-8", kStyle},
                               {"/page.js", "text/javascript; charset=utf-8", kScript},
                               {"/page.svg", "image/svg+xml", kIcon}};

}  // namespace

std::span<const PageFile> page_files() { return kFiles; }

}  // namespace vkformer::serve

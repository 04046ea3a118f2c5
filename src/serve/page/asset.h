// The dashboard's files, inside the program: everything under web/ and the chart
// library. No file is read and nothing is fetched when a page is opened.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sluice::serve::page {

struct Asset {
  std::string_view path;   // as in a URL: "/" for web/index.html, else "/assets/<name>"
  std::string_view type;   // Content-Type
  std::string_view bytes;  // lives as long as the program
  std::string etag;        // quoted, from the bytes: changes exactly when they do
};

// Sorted by path; made on first use. Thread-safe.
std::span<const Asset> assets();

// Null when there is none.
const Asset* find_asset(std::string_view path);

// The content security policy: the page loads its own files from its own server, nothing else.
inline constexpr std::string_view kContentSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

}  // namespace sluice::serve::page

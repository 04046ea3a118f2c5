#include "serve/page/asset.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "serve/page/embedded.h"

namespace sluice::serve::page {

namespace {

struct Type {
  std::string_view extension, type;
};
constexpr Type kTypes[] = {
    {".css", "text/css; charset=utf-8"},
    {".html", "text/html; charset=utf-8"},
    {".ico", "image/x-icon"},
    {".js", "text/javascript; charset=utf-8"},
    {".json", "application/json"},
    {".png", "image/png"},
    {".svg", "image/svg+xml"},
    {".webmanifest", "application/manifest+json"},
    {".woff2", "font/woff2"},
};

std::string_view type_of(std::string_view name) {
  for (const auto& t : kTypes)
    if (name.ends_with(t.extension)) return t.type;
  return "application/octet-stream";
}

// FNV-1a: the tag must differ when the bytes do, it guards nothing.
std::string etag_of(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  char text[32];
  std::snprintf(text, sizeof text, "\"%016llx\"", static_cast<unsigned long long>(hash));
  return text;
}

struct Named {
  std::string path;
  EmbeddedFile file;
};

const std::vector<Named>& named() {
  static const auto all = [] {
    std::vector<Named> made;
    for (const auto& f : embedded_files())
      made.push_back({f.name == "index.html" ? "/" : "/assets/" + std::string(f.name), f});
    std::ranges::sort(made, {}, &Named::path);
    return made;
  }();
  return all;
}

}  // namespace

std::span<const Asset> assets() {
  static const auto all = [] {
    std::vector<Asset> made;
    for (const auto& n : named()) {
      const std::string_view bytes(n.file.begin,
                                   static_cast<std::size_t>(n.file.end - n.file.begin));
      made.push_back({n.path, type_of(n.file.name), bytes, etag_of(bytes)});
    }
    return made;
  }();
  return all;
}

const Asset* find_asset(std::string_view path) {
  const auto all = assets();
  const auto found = std::ranges::lower_bound(all, path, {}, &Asset::path);
  return found != all.end() && found->path == path ? &*found : nullptr;
}

}  // namespace sluice::serve::page

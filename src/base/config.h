// A setting is declared once, in its config's fields(). Loading, checking,
// --help, the JSON schema, `sluice settings` and docs/settings.md all read that
// declaration.
//
//   struct ServeConfig {
//     std::int64_t port = 8000;
//     static constexpr auto fields() {
//       using C = ServeConfig;
//       return std::tuple{
//           Field{"port", &C::port, "TCP port of the HTTP server"}.range(1, 65535).env("PORT"),
//       };
//     }
//     void check_together(std::vector<std::string>& found) const;  // optional
//   };
//
// Member types: bool, std::int64_t, double, std::string, Secret, Duration, Ident, and
// vectors of or string-keyed maps to any of them but Secret.
//
// check_together appends one sentence per problem, each beginning with the name of
// the field it is about; the loader puts file and line in front.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

// A name that may also be written as a whole number: device 0, or "GPU-5f1c…".
struct Ident {
  std::string text;
  friend bool operator==(const Ident&, const Ident&) = default;
};

// Returns why a text (one element of a list or map) is invalid; "" when it is valid.
using TextCheck = std::string (*)(std::string_view text);

// The text of a foreign variable as this setting writes it; `cause` is filled
// instead when it has no meaning here.
using EnvReader = std::string (*)(std::string_view text, std::string& cause);

template <class Owner, class T>
struct Field {
  std::string_view name;
  T Owner::*member;
  std::string_view help;
  double low = 0, high = 0;           // inclusive; low == high means no range
  std::string_view choices = {};      // "a|b|c" or empty: for strings
  std::string_view env_name = {};     // beside SLUICE_<SECTION>_<NAME>, which always works
  std::string_view env_pattern = {};  // for maps: "GPU_BATCH_SIZE_*", where * is the key
  EnvReader env_reader = nullptr;     // for env_name
  TextCheck text_check = nullptr;
  bool may_reload = false;  // takes effect on SIGHUP; otherwise at the next start
  bool hidden = false;      // shown masked, like a Secret

  constexpr Field(std::string_view n, T Owner::*m, std::string_view h)
      : name(n), member(m), help(h) {}
  constexpr Field range(double lowest, double highest) const {
    auto f = *this;
    f.low = lowest, f.high = highest;
    return f;
  }
  constexpr Field one_of(std::string_view words) const {
    auto f = *this;
    f.choices = words;
    return f;
  }
  constexpr Field env(std::string_view variable, EnvReader reader = nullptr) const {
    auto f = *this;
    f.env_name = variable, f.env_reader = reader;
    return f;
  }
  constexpr Field env_each(std::string_view pattern) const {
    auto f = *this;
    f.env_pattern = pattern;
    return f;
  }
  constexpr Field check(TextCheck function) const {
    auto f = *this;
    f.text_check = function;
    return f;
  }
  constexpr Field live() const {
    auto f = *this;
    f.may_reload = true;
    return f;
  }
  constexpr Field masked() const {
    auto f = *this;
    f.hidden = true;
    return f;
  }
};

}  // namespace sluice

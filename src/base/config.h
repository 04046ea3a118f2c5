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
// Member types: bool, std::int64_t, double, std::string, Secret, and vectors of
// or string-keyed maps to the first four.
#pragma once

#include <string_view>

namespace sluice {

template <class Owner, class T>
struct Field {
  std::string_view name;
  T Owner::*member;
  std::string_view help;
  double low = 0, high = 0;      // inclusive; low == high means no range
  std::string_view choices = {};  // "a|b|c" or empty: for strings
  std::string_view env_name = {};  // beside SLUICE_<SECTION>_<NAME>, which always works
  bool may_reload = false;         // takes effect on SIGHUP; otherwise at the next start

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
  constexpr Field env(std::string_view variable) const {
    auto f = *this;
    f.env_name = variable;
    return f;
  }
  constexpr Field live() const {
    auto f = *this;
    f.may_reload = true;
    return f;
  }
};

}  // namespace sluice

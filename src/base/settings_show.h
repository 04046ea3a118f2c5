// Settings for people, for programs and for editors. Secrets are masked in all of it.
#pragma once

#include <string>

#include "base/json.h"
#include "base/settings.h"

namespace sluice {

// Every value with its origin, range and help, at most 80 columns wide where words
// can be broken.
std::string settings_text(const Settings& settings);

// {"values": {section: {name: value}}, "settings": [{key, value, default, origin, …}]}.
// "values" is itself a configuration file, apart from its masked secrets.
Json settings_json(const Settings& settings);

// A JSON Schema (draft 2020-12) that the configuration file keeps, with defaults.
Json settings_schema(const Settings& settings);

// One table per section: what docs/settings.md holds. Defaults only, whatever was loaded.
std::string settings_markdown(const Settings& settings);

}  // namespace sluice

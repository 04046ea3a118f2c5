// Names and colours of programs: the same name has the same colour on every GPU, from eight
// that colour-blind eyes can tell apart; text always stands beside the colour.

const kColours = 8;
const kNames = 256;
const seen = new Map();

export function colourOf(name) {
  if (!seen.has(name)) {
    if (seen.size >= kNames) seen.clear();
    seen.set(name, seen.size % kColours);
  }
  return `p${seen.get(name)}`;
}

// "/usr/bin/trainer" is "trainer"; a whole command line stays as it is.
export function programName(name) {
  if (!name) return 'no longer known';
  return /^\/\S+$/.test(name) ? name.slice(name.lastIndexOf('/') + 1) : name;
}

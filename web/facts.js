// What does not change about a device, as lines of name and value; a fact that is
// not known has no line.

import {bytes, count, megahertz, watts} from './format.js';

const yesNo = (v) => (v === undefined || v === null ? undefined : v ? 'on' : 'off');
const maybe = (format, v) => (v === undefined || v === null ? undefined : format(v));

function rate(perSecond, unit) {
  if (!perSecond) return undefined;
  const steps = ['', 'k', 'M', 'G', 'T', 'P'];
  const step = Math.min(steps.length - 1, Math.floor(Math.log10(perSecond) / 3));
  return `${Number((perSecond / 1000 ** step).toPrecision(3))} ${steps[step]}${unit}`;
}

export function gpuFacts(gpu) {
  const info = gpu.info ?? {};
  const {clocks = {}, power = {}, ecc = {}, catalogue} = info;
  const links = info.nvlinks ?? [];
  return known([
    ['UUID', gpu.uuid],
    ['PCI bus', gpu.bus],
    ['Driver', info.driver_version],
    ['CUDA of the driver', info.cuda_version],
    ['Compute capability', info.compute_capability],
    ['Streaming multiprocessors', maybe(count, info.sm_count)],
    ['Memory', maybe(bytes, info.memory_total_bytes)],
    ['Bandwidth, by datasheet', rate(catalogue?.bandwidth_bytes_per_s, 'B/s')],
    ['Highest SM clock', maybe(megahertz, clocks.sm_max_mhz)],
    ['Highest memory clock', maybe(megahertz, clocks.memory_max_mhz)],
    ['Power limit', maybe(watts, power.enforced_w ?? power.limit_w)],
    [
      'Power limit may be',
      power.min_w && power.max_w ? `${watts(power.min_w)} to ${watts(power.max_w)}` : undefined
    ],
    ['ECC', yesNo(ecc.enabled)],
    [
      'MIG',
      info.mig ? (info.mig.enabled ? `on, ${count(info.mig.instances)} instances` : 'off') :
                                     undefined
    ],
    [
      'NVLink',
      links.length ? `${links.filter((l) => l.active).length} of ${links.length} up` : undefined
    ],
    ['Persistence mode', yesNo(info.persistence_mode)],
    ['NUMA node', maybe(String, info.numa_node)],
    ['Best precision', bestPrecision(info)],
    ...peaks(catalogue?.peak_ops_per_s),
  ]);
}

function bestPrecision({recommended_precision: precision, recommended_because: because}) {
  return because ? `${precision} (${because})` : precision;
}

const peaks = (rates = {}) => Object.entries(rates).map(
    ([name, v]) => [`Peak ${name}, by datasheet`, rate(v, name === 'int8' ? 'OP/s' : 'FLOP/s')]);

export function cpuFacts(info = {}) {
  return known([
    ['Model', info.model],
    ['Architecture', info.architecture],
    ['Sockets', maybe(count, info.sockets)],
    ['Cores', maybe(count, info.physical_cores)],
    ['Threads', maybe(count, info.logical_cores)],
    ['Usable cores', maybe(String, info.usable_cores)],
    ['Limited by', info.limited_by || undefined],
    ['Memory', maybe(bytes, info.memory_total_bytes)],
    ['Memory limit', maybe(bytes, info.memory_limit_bytes)],
    ['Instruction sets', info.isa?.join(', ')],
  ]);
}

const known = (lines) =>
    lines.filter(([, text]) => text !== undefined && text !== null && text !== '');

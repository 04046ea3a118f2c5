// Which curves each kind of device has, and in what unit they are read.

import {bytes, celsius, decimal, megahertz, milliseconds, percent, perSecond, share, watts} from './format.js';

const chart = (title, format, curves, options = {}) => ({title, format, curves, ...options});

export const kGpuCharts = [
  chart('Utilisation', percent, {utilization: 'SM', memory_activity: 'Memory bus'}, {top: 100}),
  chart(
      'Memory', bytes, {memory_used: 'Used', memory_reserved: 'Reserved'},
      {topMetric: 'memory_total', binary: true}),
  chart('Temperature', celsius, {temperature: 'GPU', memory_temperature: 'Memory'}),
  chart('Power', watts, {power: 'Drawn', power_limit: 'Limit'}, {floor: 0}),
  chart(
      'Clocks', megahertz, {sm_clock: 'SM', memory_clock: 'Memory'},
      {floor: 0, alsoAbout: 'clock_ratio'}),
];

export const kCpuCharts = [
  chart('Utilisation', percent, {cpu_utilization: 'CPU'}, {top: 100}),
  chart(
      'Memory', bytes, {host_memory_used: 'Used'}, {topMetric: 'host_memory_total', binary: true}),
  chart('Load', decimal, {cpu_load: '1 min average'}, {floor: 0}),
  chart('Temperature', celsius, {cpu_temperature: 'CPU'}),
];

export const kServerCharts = [
  chart('Requests', perSecond, {request_rate: 'Rate'}, {floor: 0}),
  chart('Latency', milliseconds, {request_p50: 'p50', request_p99: 'p99'}, {floor: 0}),
  chart('Errors', share, {request_error_rate: 'Answered 500'}, {floor: 0}),
];

export function chartsOf(device) {
  if (device === 'cpu') return kCpuCharts;
  return device === 'server' ? kServerCharts : kGpuCharts;
}

// Numbers with their units, in as many digits as people read.

const NARROW = "\u202f";

function scaled(value, step, units) {
  let n = 0;
  while (Math.abs(value) >= 999.5 && n < units.length - 1) {
    value /= step;
    n += 1;
  }
  return [digits(value), units[n]];
}

/** A number with three significant digits. */
function digits(value) {
  const size = Math.abs(value);
  if (size >= 99.95 || value === 0) return value.toFixed(0);
  if (size >= 9.995) return value.toFixed(1);
  return value.toFixed(2);
}

export const format = {
  count: (value) => (Math.abs(value) < 1000 ? [Math.abs(value) % 1 ? digits(value) : String(value), ""] : scaled(value, 1000, ["", "k", "M", "G", "T"])),
  rate: (value) => {
    const [text, unit] = scaled(value, 1000, ["", "k", "M", "G", "T"]);
    return [text, `${unit}/s`];
  },
  bytes: (value) => (value < 1024 ? [String(Math.round(value)), "B"] : scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"])),
  seconds: (value) => {
    if (value >= 1) return [digits(value), "s"];
    if (value >= 1e-3) return [digits(value * 1e3), "ms"];
    return value >= 1e-6 ? [digits(value * 1e6), "µs"] : [(value * 1e9).toFixed(0), "ns"];
  },
  ratio: (value) => [(Math.floor(value * 1000) / 10).toFixed(1), "%"],
};

export const words = ([number, unit]) => (unit ? `${number}${NARROW}${unit}` : number);

/** A time, with its date unless that is today. */
export function moment(time) {
  const isToday = time.toDateString() === new Date().toDateString();
  return isToday ? time.toLocaleTimeString() : time.toLocaleString();
}

export function span(seconds) {
  const s = Math.floor(seconds);
  const [d, h, m] = [Math.floor(s / 86400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60];
  if (d) return `${d} d ${h} h`;
  if (h) return `${h} h ${m} min`;
  return m ? `${m} min ${s % 60} s` : `${s} s`;
}

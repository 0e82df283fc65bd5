"use strict";
// Makes the still pictures of the page answer. All figures come from the page's data; nothing is asked of anybody. The files
// of this folder are one script, in the order of their names in page.rs.

// --- Figures as every report of ptmem prints them ---

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

function size(bytes) {
  let value = Math.abs(bytes), unit = 0;
  while (unit < UNITS.length - 1 && Number(value.toFixed(unit ? 2 : 0)) >= 1024) { value /= 1024; unit += 1; }
  return (bytes < 0 ? "-" : "") + value.toFixed(unit ? 2 : 0) + " " + UNITS[unit];
}

function change(bytes) { return (bytes > 0 ? "+" : "") + size(bytes); }

function count(number) { return Math.round(number).toString().replace(/\B(?=(\d{3})+$)/g, ","); }

function counted(number, noun) { return `${count(number)} ${noun}${number === 1 ? "" : "s"}`; }

function percent(part, whole) { return whole > 0 ? (100 * part / whole).toFixed(1) + " %" : "0.0 %"; }

// An event by its number, as every report has it; before the first one is the start.
function eventText(event) { return event < 0 ? "start" : "event " + count(event); }

// `span` is the length of what is shown of the scale.
function axisText(axis, value, span) {
  if (axis === "event") return eventText(Math.floor(value));
  if (axis === "program") return count(Math.floor(value)) + " allocations";
  return span < 2e6 ? (value / 1e3).toFixed(3) + " ms" : (value / 1e6).toFixed(3) + " s";
}

function ticks(top) {
  const least = Math.max(Math.floor(top / 5), 1), unit = 2 ** (Math.floor(Math.log2(least) / 10) * 10);
  const step = unit * ([1, 2, 5, 10, 20, 50, 100, 200, 500, 1024, 2048].find((step) => step * unit >= least) || 1);
  const all = [];
  for (let tick = 0; tick <= top && all.length < 12; tick += step) all.push(tick);
  return all;
}

// --- Columns ---

function sums(differences) {
  let sum = 0;
  return differences.map((difference) => sum += difference);
}

// The last index below `length` for which a rising function is not above a value; 0 where there is none.
function lastNotAbove(length, at, value) {
  let from = 0, to = length;
  while (from < to) {
    const middle = (from + to) >> 1;
    if (at(middle) <= value) from = middle + 1; else to = middle;
  }
  return Math.max(from - 1, 0);
}

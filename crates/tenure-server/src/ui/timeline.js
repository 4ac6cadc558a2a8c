// The terms of one election over time: a line for each leader, and one for the times without one.
// The table of terms below it has the same content as text.

import { clock, precise } from './dom.js';

/** @typedef {import('./api.js').Term} Term */
/** @typedef {{from: number, to: number}} Span */

const SVG = 'http://www.w3.org/2000/svg';
const LINE = 26;
const BAR = 14;
const AXIS = 22;
const MOST_LINES = 10;

/**
 * The times without a leader between terms, and after the last one. Newest first, as the terms.
 * @param {Term[]} terms newest first
 * @param {number} now
 * @returns {Span[]}
 */
export function gaps(terms, now) {
  const found = [];
  let until = now;
  for (const term of terms) {
    const to = term.ended_at === null ? until : Date.parse(term.ended_at);
    if (until > to) found.push({ from: to, to: until });
    until = term.began_at === null ? to : Date.parse(term.began_at);
  }
  return found;
}

/**
 * @param {string} name
 * @param {Record<string, string | number>} attributes
 * @param {...(Node | string)} children
 */
function svg(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}

/** The distance of the marks of the axis, in seconds. */
const STEPS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 604800];

/**
 * Draws the terms.
 * @param {Element} at
 * @param {Term[]} terms newest first
 * @param {Span} span
 * @param {number} width
 */
export function draw(at, terms, span, width) {
  const seen = terms.filter((term) => Date.parse(term.ended_at ?? '') > span.from || term.ended_at === null);
  const holders = [...new Set(seen.map((term) => term.holder))];
  const lines = holders.slice(0, MOST_LINES);
  const isCut = holders.length > lines.length;
  const names = isCut ? [...lines, `${holders.length - lines.length} others`] : lines;
  const isNarrow = width < 560;
  const left = isNarrow ? 0 : 150;
  const pitch = isNarrow ? LINE + 16 : LINE;
  const height = (names.length + 1) * pitch + AXIS;
  const x = (/** @type {number} */ time) =>
    left + ((Math.min(Math.max(time, span.from), span.to) - span.from) / (span.to - span.from)) * (width - left);
  const y = (/** @type {number} */ line) => line * pitch + (isNarrow ? 18 : 6);

  const missing = gaps(terms, span.to).filter((gap) => gap.to > span.from);
  const drawing = svg('svg', {
    width, height, viewBox: `0 0 ${width} ${height}`, role: 'img',
    'aria-label': `${seen.length} terms of ${holders.length} candidates since ${clock(span.from)}, `
      + `${missing.length} times without a leader. The table below has the details.`,
  });
  drawing.append(svg('defs', {}, svg('pattern', {
    id: 'hatch', width: 6, height: 6, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)',
  }, svg('rect', { class: 'hatch-ground', width: 6, height: 6 }), svg('rect', { class: 'hatch-line', width: 2, height: 6 }))));

  axis(drawing, span, x, height, width - left);
  [...names, 'nobody'].forEach((name, line) => {
    const text = svg('text', { class: 'label', x: 0, y: isNarrow ? y(line) - 5 : y(line) + 11 });
    const most = isNarrow ? Math.floor(width / 8) : 18;
    text.append(svg('title', {}, name), name.length > most ? `${name.slice(0, most - 1)}…` : name);
    drawing.append(text, svg('line', { class: 'rule', x1: left, x2: width, y1: y(line) + BAR / 2, y2: y(line) + BAR / 2 }));
  });
  for (const term of seen) {
    const line = lines.indexOf(term.holder);
    const [from, to] = [Date.parse(term.began_at ?? '') || span.from, Date.parse(term.ended_at ?? '') || span.to];
    const isNow = term.ended_at === null;
    const bar = svg('rect', {
      class: isNow ? 'term now' : 'term', x: x(from), y: y(line < 0 ? names.length - 1 : line),
      width: Math.max(2, x(to) - x(from)), height: BAR, rx: 2,
    }, svg('title', {}, `${term.holder}: ${clock(from)}, ${precise(to - from)}${isNow ? ', leads now' : ''}`));
    drawing.append(bar);
    const top = y(line < 0 ? names.length - 1 : line);
    if (term.end && to < span.to) drawing.append(mark(term.end, x(to), top));
  }
  let free = Infinity;
  for (const { from, to } of missing) {
    const [start, end] = [x(from), Math.max(x(to), x(from) + 3)];
    const text = precise(to - from);
    drawing.append(svg('rect', { class: 'gap', x: start, y: y(names.length), width: end - start, height: BAR, fill: 'url(#hatch)' },
      svg('title', {}, `nobody: ${clock(from)}, ${text}`)));
    // Labels of gaps that are near to each other would overlap: then only the newer one has one.
    const needs = text.length * 7 + 8;
    if (end + needs < Math.min(free, width)) {
      drawing.append(svg('text', { class: 'gap-label', x: end + 4, y: y(names.length) + 11 }, text));
      free = start;
    } else if (start - needs > left && end <= free) {
      drawing.append(svg('text', { class: 'gap-label', x: start - 4, y: y(names.length) + 11, 'text-anchor': 'end' }, text));
      free = start - needs;
    }
  }
  at.replaceChildren(drawing);
}

/**
 * The end of a term: a cross for an expiry, a zigzag for a break, an arrow for a hand-over. A term
 * that was released just ends.
 * @param {string} end
 * @param {number} x
 * @param {number} y
 */
function mark(end, x, y) {
  const middle = y + BAR / 2;
  const paths = /** @type {Record<string, string>} */ ({
    expired: `M${x - 4} ${middle - 4}l8 8m0-8l-8 8`,
    broken: `M${x} ${y - 2}l-3 6h6l-3 6v5`,
    handed_over: `M${x - 4} ${middle}h9m-4-4l4 4l-4 4`,
  });
  return svg('path', { class: `end ${end}`, d: paths[end] ?? '' });
}

/**
 * @param {Element} drawing
 * @param {Span} span
 * @param {(time: number) => number} x
 * @param {number} height
 * @param {number} width
 */
function axis(drawing, span, x, height, width) {
  const most = Math.max(2, Math.floor(width / 110));
  const length = (span.to - span.from) / 1000;
  const step = (STEPS.find((step) => length / step <= most) ?? Math.ceil(length / most / 604800) * 604800) * 1000;
  const withDate = step >= 43200_000 || length > 86400;
  const offset = new Date(span.from).getTimezoneOffset() * 60_000;
  for (let time = Math.ceil((span.from - offset) / step) * step + offset; time < span.to; time += step) {
    const at = x(time);
    const text = withDate && step >= 86400_000 ? clock(time).split(',')[0] ?? '' : clock(time, withDate);
    drawing.append(svg('line', { class: 'tick', x1: at, x2: at, y1: 0, y2: height - AXIS + 4 }));
    const short = step >= 60_000 ? text.replace(/:\d\d( UTC)?$/, '$1') : text;
    const room = x(span.to) - at;
    drawing.append(svg('text', { class: 'axis', x: at, y: height - 4, 'text-anchor': room < 40 ? 'end' : at < 30 ? 'start' : 'middle' }, short));
  }
}

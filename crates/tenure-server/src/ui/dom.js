// The document: elements, text, times, announcements. Text of the store goes in by `textContent`
// only, so names can't be markup.

import { now } from './api.js';

/**
 * The element with this id, which must be of the class.
 * @template {Element} T
 * @param {string} id
 * @param {new () => T} type
 * @returns {T}
 */
export function byId(id, type) {
  const found = document.getElementById(id);
  if (!(found instanceof type)) throw new Error(`#${id} is not a ${type.name}`);
  return found;
}

/** @param {string} id */
export const html = (id) => byId(id, HTMLElement);

/** @param {string} id */
export const button = (id) => byId(id, HTMLButtonElement);

/** @param {string} id */
export const input = (id) => byId(id, HTMLInputElement);

/** @param {string} id */
export const select = (id) => byId(id, HTMLSelectElement);

/**
 * @param {ParentNode} parent
 * @param {string} selector
 * @returns {HTMLElement}
 */
export function within(parent, selector) {
  const found = parent.querySelector(selector);
  if (!(found instanceof HTMLElement)) throw new Error(`${selector} is missing`);
  return found;
}

/**
 * Creates an element. Strings become text.
 * @param {string} tag
 * @param {Record<string, string>} [attributes]
 * @param {...(Node | string)} children
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Sets text if it differs, so that nothing is laid out again. @param {Element} at @param {string} text */
export function setText(at, text) {
  if (at.textContent !== text) at.textContent = text;
}

/** @param {Element} at @param {string} name @param {string | null} value null removes it */
export function setAttribute(at, name, value) {
  if (value === null) at.removeAttribute(name);
  else if (at.getAttribute(name) !== value) at.setAttribute(name, value);
}

/** @param {Element} svg @param {string} name */
export function setIcon(svg, name) {
  const use = svg.localName === 'use' ? svg : svg.querySelector('use');
  if (use) setAttribute(use, 'href', `#i-${name}`);
}

/** `3 d 4 h`, `2 min 10 s`, `12 s`. @param {number} ms */
export function duration(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const [minutes, hours] = [Math.floor(seconds / 60), Math.floor(seconds / 3600)];
  const days = Math.floor(hours / 24);
  const two = (/** @type {number} */ a, /** @type {string} */ of, /** @type {number} */ b,
    /** @type {string} */ rest) => (b ? `${a} ${of} ${b} ${rest}` : `${a} ${of}`);
  if (days) return two(days, 'd', hours % 24, 'h');
  if (hours) return two(hours, 'h', minutes % 60, 'min');
  if (minutes) return two(minutes, 'min', seconds % 60, 's');
  return `${seconds} s`;
}

/** `5.8 s`, and from ten seconds on whole units. @param {number} ms */
export function precise(ms) {
  return ms < 9950 ? `${(Math.max(0, ms) / 1000).toFixed(1)} s` : duration(ms + 500);
}

const TIMES = 'tenure.times';
let inUtc = read(TIMES) === 'utc';

/** A setting of the page. @param {string} key */
export function read(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** @param {string} key @param {string} value */
export function write(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // Without storage the setting lasts as long as the page.
  }
}

/** @param {boolean} utc */
export function showUtc(utc) {
  inUtc = utc;
  write(TIMES, utc ? 'utc' : 'local');
}

export const showsUtc = () => inUtc;

/**
 * `21 Nov, 02:05:10`, with the year if it is another one.
 * @param {number} time
 * @param {boolean} [withDate]
 */
export function clock(time, withDate = true) {
  const zone = inUtc ? 'UTC' : undefined;
  const year = (/** @type {number} */ at) => new Date(at).toLocaleString('en-GB', { year: 'numeric', timeZone: zone });
  /** @type {Intl.DateTimeFormatOptions} */
  const date = withDate ? { day: 'numeric', month: 'short' } : {};
  if (withDate && year(time) !== year(now())) date.year = 'numeric';
  const text = new Date(time).toLocaleString('en-GB', {
    ...date, hour: '2-digit', minute: '2-digit', second: '2-digit', timeZone: zone,
  });
  return inUtc ? `${text} UTC` : text;
}

/**
 * Fills a `<time>`, whose title is in UTC.
 * @param {Element} at
 * @param {string | null | undefined} time RFC 3339
 * @param {(ms: number) => string} text
 */
export function setTime(at, time, text) {
  const ms = time ? Date.parse(time) : NaN;
  const known = !Number.isNaN(ms);
  setText(at, known ? text(ms) : '–');
  setAttribute(at, 'datetime', known && time ? time : null);
  setAttribute(at, 'title', known ? new Date(ms).toISOString().replace('T', ' ').replace(/\.\d+Z/, ' UTC') : null);
}

const ANNOUNCE_EVERY_MS = 5000;
/** @type {string[]} */
let unsaid = [];
let mayAnnounceAt = 0;
let announceTimer = 0;

/**
 * Announces something to readers of the screen: at most once in five seconds, and then what
 * happened since.
 * @param {string} text
 */
export function announce(text) {
  if (!unsaid.includes(text)) unsaid.push(text);
  clearTimeout(announceTimer);
  announceTimer = setTimeout(() => {
    mayAnnounceAt = Date.now() + ANNOUNCE_EVERY_MS;
    const more = unsaid.length - 3;
    html('announcer').textContent =
      unsaid.slice(-3).join('. ') + (more > 0 ? `. And ${more} more changes` : '');
    unsaid = [];
  }, Math.max(50, mayAnnounceAt - Date.now()));
}

let toastTimer = 0;

/** Shows the result of an action for some seconds. @param {string} text */
export function toast(text) {
  const at = html('toast');
  at.textContent = text;
  at.hidden = false;
  announce(text);
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => (at.hidden = true), 8000);
}

// Elements, text and times. Texts of the store go in by `textContent` only, so that no name can
// become markup.

import { now } from './api.js';

/** @import { Ui } from './types' */

/** The elements with an id: `#try-now` is `ui.tryNow`. @type {Ui} */
export const ui = /** @type {any} */ (Object.fromEntries([...document.querySelectorAll('[id]')]
	.map((at) => [at.id.replace(/-(.)/g, (_, letter) => letter.toUpperCase()), at])));

/** @param {EventTarget} at @param {string} event @param {(event: any) => void} handle */
export const on = (at, event, handle) => at.addEventListener(event, handle);

/** @param {Element} at */
export const find = (at, selector = '') => /** @type {HTMLElement} */ (at.querySelector(selector));

/** @param {string} tag @param {Record<string, string>} attributes @param {...(Node | string)} children */
export function make(tag, attributes, ...children) {
	const made = document.createElement(tag);
	for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
	made.append(...children);
	return made;
}

/** A text of the store, which may be written from right to left. */
export const bdi = (text = '') => make('bdi', {}, text);

/** Sets a text if it differs, so that nothing is laid out again. @param {Element} at */
export function setText(at, text = '') {
	if (at.textContent !== text) at.textContent = text;
}

/** @param {Element} at */
export const setIcon = (at, name = '') => find(at, 'use').setAttribute('href', `#i-${name}`);

/** `3 d 4 h`, `2 min 10 s`, `12 s`. */
export function duration(ms = 0) {
	const s = Math.max(0, Math.floor(ms / 1000));
	const [min, h, d] = [Math.floor(s / 60), Math.floor(s / 3600), Math.floor(s / 86400)];
	if (d) return `${d} d ${h % 24} h`;
	if (h) return `${h} h ${min % 60} min`;
	return min ? `${min} min ${s % 60} s` : `${s} s`;
}

/** `5.8 s`, and from ten seconds on whole units. */
export const precise = (ms = 0) => (ms < 9950 ? `${(Math.max(0, ms) / 1000).toFixed(1)} s` : duration(ms + 500));

export const many = (count = 0, thing = '') => `${count.toLocaleString('en-GB')} ${thing}${count === 1 ? '' : 's'}`;

/** A choice of the user, kept in this browser. */
export const setting = (name = '') => localStorage.getItem(`tenure.${name}`);

/** `21 Nov, 02:05:10`; short: without the date and the zone. */
export function clock(time = 0, isShort = false) {
	const isUtc = setting('times') === 'utc';
	const isOld = now() - time > 300 * 86400_000;
	const text = new Date(time).toLocaleString('en-GB', {
		...(isShort ? {} : { day: 'numeric', month: 'short', year: isOld ? 'numeric' : undefined }),
		hour: '2-digit', minute: '2-digit', second: '2-digit', timeZone: isUtc ? 'UTC' : undefined,
	});
	return isUtc && !isShort ? `${text} UTC` : text;
}

/**
 * Fills a `<time>`, whose title is in UTC.
 * @param {HTMLElement} at @param {string | null} time @param {(ms: number) => string} text
 */
export function setTime(at, time, text) {
	setText(at, time ? text(Date.parse(time)) : '–');
	at.title = time ? `${time.slice(0, 19).replace('T', ' ')} UTC` : '';
	at.setAttribute('datetime', time ?? '');
	return at;
}

/** @param {string | null} at @param {(ms: number) => string} text */
export const time = (at, text) => setTime(make('time', {}), at, text);

/** @type {string[]} */
let unsaid = [];
let [timer, toastTimer, quietUntil] = [0, 0, 0];

/** Announces a text to a screen reader, at most once in five seconds. */
export function announce(text = '') {
	unsaid.push(text);
	clearTimeout(timer);
	timer = setTimeout(() => {
		quietUntil = Date.now() + 5000;
		const more = unsaid.length > 3 ? [many(unsaid.length - 3, 'more change')] : [];
		setText(ui.announcer, [...unsaid.slice(-3), ...more].join('. '));
		unsaid = [];
	}, quietUntil - Date.now());
}

/** Shows the result of an action for some seconds. */
export function toast(text = '') {
	announce(text);
	setText(ui.toast, text);
	ui.toast.hidden = false;
	clearTimeout(toastTimer);
	toastTimer = setTimeout(() => (ui.toast.hidden = true), 8000);
}

// Elements, text and times. Texts of the store go in by `textContent` only, so that no name can
// become markup.

import { now } from './api.js';

/** The elements with an id: `#try-now` is `ui.tryNow`. @type {Ui} */
export const ui = /** @type {any} */ (Object.fromEntries([...document.querySelectorAll('[id]')]
	.map((at) => [at.id.replace(/-(.)/g, (_, letter) => letter.toUpperCase()), at])));

/** @param {EventTarget} at @param {string} event @param {(event: any) => void} handle */
export const on = (at, event, handle) => at.addEventListener(event, handle);

/** @param {Element} at */
export const find = (at, selector = '') => /** @type {HTMLElement} */ (at.querySelector(selector));

/** @template {Element} T @param {T} at @param {Attributes} attributes @param {...Child} children */
export function fill(at, attributes, ...children) {
	for (const [name, value] of Object.entries(attributes)) at.setAttribute(name, `${value}`);
	at.append(...children);
	return at;
}

/** @param {string} tag @param {Attributes} attributes @param {...Child} children */
export const make = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, ...children);

export const bdi = (text = '') => make('bdi', {}, text);

/** Sets a text, if it differs. @param {Element} at @param {string | number} text */
export function say(at, text) {
	if (at.textContent !== `${text}`) at.textContent = `${text}`;
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

/** `5.8 s`, `12 s`. */
export const precise = (ms = 0) => (ms < 9950 ? `${(Math.max(0, ms) / 1000).toFixed(1)} s` : duration(ms + 500));

export const many = (count = 0, thing = '') => `${count.toLocaleString('en-GB')} ${thing}${count === 1 ? '' : 's'}`;

export const setting = (name = '') => localStorage.getItem(`tenure.${name}`);

/** `21 Nov, 02:05:10`. */
export function clock(time = 0) {
	const isUtc = setting('times') === 'utc';
	const text = new Date(time).toLocaleString('en-GB', {
		day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', second: '2-digit',
		timeZone: isUtc ? 'UTC' : undefined,
	});
	return isUtc ? `${text} UTC` : text;
}

/** Fills a `<time>`. @param {string | null} time @param {Words} text */
export function setTime(time, text, at = make('time', {})) {
	say(at, time ? text(Date.parse(time)) : '–');
	at.title = time ? `${time.slice(0, 19).replace('T', ' ')} UTC` : '';
	at.setAttribute('datetime', time ?? '');
	return at;
}

/** @type {string[]} */
let unsaid = [];
let [timer, toastTimer, quietUntil] = [0, 0, 0];

/** Tells screen readers, at most once in five seconds. */
export function announce(text = '') {
	unsaid.push(text);
	clearTimeout(timer);
	timer = setTimeout(() => {
		quietUntil = Date.now() + 5000;
		say(ui.announcer, unsaid.slice(-3).join('. '));
		unsaid = [];
	}, quietUntil - Date.now());
}

export function toast(text = '') {
	announce(text);
	say(ui.toast, text);
	ui.toast.hidden = false;
	clearTimeout(toastTimer);
	toastTimer = setTimeout(() => (ui.toast.hidden = true), 8000);
}

// The table of elections: its filter, its rows, and the messages in its place.

import { ask, nameOf, now, store } from './api.js';
import { announce, bdi, duration, find, make, many, on, setIcon, setText, setTime, ui } from './dom.js';

/** @import { Entry, Lease, Overview, Row } from './types' */

const REFRESH_MS = 5000;
const SOON_MS = 1000;
const BUSY_CHANGES = 5;

export const overview = {
	answer: /** @type {Overview | null} */ (null),
	/** Whether the next answer is the first one after a loss of the connection. */
	isBack: false,
	onError: (/** @type {unknown} */ _error) => {},
};

/** @type {Map<string, Entry>} */
const entries = new Map();
let [isDirty, isPointed, isStale, askedAt] = [true, false, false, 0];
/** @type {number[]} when the last changes came */
let changes = [];
let asking = new AbortController();

on(ui.rows, 'pointerenter', (event) => (isPointed = event.pointerType === 'mouse'));
on(ui.rows, 'pointerleave', () => (isPointed = !(isDirty = true)));
on(ui.rows, 'focusout', () => (isDirty = true));

/** The order of rows does not change while the pointer or the focus is on one of them. */
const isHeld = () => isPointed || ui.rows.contains(document.activeElement);

/** Kind, icon and words for the state of an election. @param {Lease} of @returns {[string, string, string]} */
export function describe({ holder, state, look = [], epoch, ended_at, recent_terms }) {
	if (!holder) {
		const ended = state === 'available' ? (epoch || ended_at ? 'released' : 'never led') : state;
		if (look.includes('expected')) return ['bad', 'nobody', `${ended}, a leader is expected`];
		return look.includes('nobody_leads') ? ['bad', 'nobody', ended] : ['free', 'free', ended];
	}
	if (state === 'breaking') return ['warn', 'breaking', 'breaking'];
	if (look.includes('renewal_late')) return ['warn', 'late', 'renewal is late'];
	if (look.includes('flapping')) return ['warn', 'flapping', `${recent_terms} terms in 20 min`];
	return ['led', 'led', ''];
}

/** What a change is, in words. @param {string} event @param {Lease} change */
export const news = (event, { holder, state }) => (!holder ? `nobody leads, ${event}`
	: `${holder} ${state === 'breaking' ? 'has to stop' : 'leads'}`);

/**
 * Paints the time left. It counts down between two answers of the store.
 * @param {Element} meter @param {Element} text @param {Lease} of
 * @param {number} age of what the store said @param {(ms: number) => string} words
 */
export function paintLeft(meter, text, { state, holder, duration_ms: whole, remaining_ms: left }, age, words) {
	const isBar = typeof whole === 'number' && left !== null;
	meter.toggleAttribute('hidden', !isBar);
	if (!isBar) return setText(text, holder ? 'no end' : '');
	// The stream reports the end of a lease at once. If it did not, the lease was renewed.
	const isRenewed = left <= age && state === 'leased';
	const rest = isRenewed ? whole : Math.min(Math.max(0, left - age), whole);
	const fill = find(meter, '.fill');
	fill.style.transform = `scaleX(${(rest / whole).toFixed(3)})`;
	fill.classList.toggle('renewed', isRenewed);
	setText(text, isRenewed ? 'renewed' : words(rest));
	// Screen readers get it every ten seconds only.
	const tens = String(Math.floor(Date.now() / 10_000));
	if (meter.getAttribute('data-said') === tens) return;
	const aria = { 'data-said': tens, 'aria-valuemax': whole, 'aria-valuenow': rest, 'aria-valuetext': duration(rest) };
	for (const [name, value] of Object.entries(aria)) meter.setAttribute(name, String(value));
}

/** The filter, as parameters of the address. */
function filter() {
	const query = new URLSearchParams(/** @type {any} */ (new FormData(ui.filters)));
	for (const [key, value] of [...query]) if (!value) query.delete(key);
	return query;
}

/** The address of the overview with this filter. */
export const hash = () => `#/?${filter()}`.replace(/\?$/, '');

/** @param {URLSearchParams} query */
export function setFilter(query) {
	addNamespace(query.get('namespace') ?? '');
	for (const at of [ui.filter, ui.namespace, ui.show]) at.value = query.get(at.name) ?? '';
}

function addNamespace(name = '') {
	const options = [...ui.namespace.options];
	if (options.some(({ value }) => value === name)) return;
	ui.namespace.add(new Option(name), options.find(({ value }) => value > name) ?? null);
}

/** Reads the overview. A request that is still open is given up. */
export async function refresh() {
	asking.abort();
	const { signal } = asking = new AbortController();
	[askedAt, isStale] = [Date.now(), false];
	const query = filter();
	const show = query.get('show');
	query.delete('show');
	if (show === 'look') query.set('look', 'true');
	else if (show) query.set('state', show);
	query.set('limit', '200');
	try {
		const answer = await ask(`v1/overview?${query}`, signal);
		if (answer.too_many) showNamespaces((await ask('v1/namespaces', signal)).namespaces);
		take(answer);
	} catch (error) {
		if (!signal.aborted) overview.onError(error);
	}
}

/** Reads the overview again if it is time: soon after a change, if changes are rare. */
export function tick() {
	const since = Date.now() - askedAt;
	changes = changes.filter((at) => Date.now() - at < 1000);
	if (since > (isStale && changes.length < BUSY_CHANGES ? SOON_MS : REFRESH_MS)) refresh();
}

/** @param {{namespace: string, leases: number}[]} namespaces */
const showNamespaces = (namespaces) => ui.namespaces.replaceChildren(...namespaces.map(({ namespace, leases }) => {
	addNamespace(namespace);
	const link = make('a', { href: `#/?namespace=${encodeURIComponent(namespace)}` }, bdi(namespace));
	return make('li', {}, link, ` ${many(leases, 'election')}`);
}));

/** @param {Overview} answer */
function take(answer) {
	if (answer.at) store.ahead = Date.parse(answer.at) - Date.now();
	const named = new Set(answer.elections.map(nameOf));
	for (const [name, { tr }] of entries) {
		tr.classList.toggle('gone', !named.has(name));
		if (!named.has(name) && !isHeld()) entries.delete(name);
	}
	for (const row of answer.elections) {
		addNamespace(row.namespace);
		const entry = entries.get(nameOf(row)) ?? add(row);
		const { epoch, state, holder } = entry.row;
		const isOther = epoch !== row.epoch || state !== row.state || holder !== row.holder;
		if (overview.isBack) entry.tr.toggleAttribute('data-changed', isOther);
		Object.assign(entry, { row, at: now() - answer.age_ms });
	}
	Object.assign(overview, { answer, isBack: false });
	isDirty = true;
}

/** @param {Row} row @returns {Entry} */
function add(row) {
	const tr = /** @type {HTMLElement} */ (ui.row.content.firstElementChild?.cloneNode(true));
	const name = nameOf(row);
	tr.dataset.election = name;
	find(tr, 'a').setAttribute('href', `#/${name.split('/').map(encodeURIComponent).join('/')}`);
	setText(find(tr, '.name bdi'), name);
	find(tr, '.meter').setAttribute('aria-label', `Time left of ${name}`);
	const entry = { row, at: 0, tr };
	entries.set(name, entry);
	return entry;
}

/** Shows a change at once. Whether an election needs a look is for the store to say: it is asked
 * soon. @param {string} event @param {Lease} change */
export function change(event, change) {
	changes.push(Date.now());
	isStale = true;
	const entry = entries.get(nameOf(change));
	if (!entry) return;
	const { row } = entry;
	const ended_at = row.holder ? new Date(now()).toISOString() : row.ended_at;
	Object.assign(entry, { row: { ...row, ...change, ended_at, epoch: change.epoch ?? row.epoch }, at: now() });
	isDirty = true;
	if (row.holder === change.holder && row.state === change.state) return;
	announce(`${nameOf(change)}: ${news(event, change)}`);
}

/** Paints what changed, and the bars and times while the store is heard. @param {boolean} isLive */
export function paint(isLive) {
	const { answer } = overview;
	if (!answer || !(isDirty || isLive)) return;
	if (isDirty) arrange(answer);
	for (const { row, at, tr } of entries.values()) {
		if (isDirty) paintRow(tr, row);
		paintLeft(find(tr, '.meter'), find(tr, '.left-text'), row, now() - at, duration);
		const ago = row.holder ? '' : ' ago';
		setTime(find(tr, 'time'), row.holder ? row.granted_at : row.ended_at, (ms) => duration(now() - ms) + ago);
	}
	isDirty = false;
}

/** @param {HTMLElement} tr @param {Row} row */
function paintRow(tr, row) {
	const [kind, icon, words] = describe(row);
	Object.assign(tr.dataset, { kind, state: row.state, waiting: row.waiters });
	setIcon(tr, icon);
	setText(find(tr, '.holder'), row.holder ?? 'nobody');
	setText(find(tr, '.note'), tr.classList.contains('gone') ? 'no longer listed' : words);
	setText(find(tr, '.count'), String(row.waiters));
}

/** Puts rows into the store's order. While somebody is at one, new ones come last.
 * @param {Overview} answer */
function arrange({ elections, leases, matching, too_many }) {
	const rows = elections.flatMap((row) => entries.get(nameOf(row))?.tr ?? []);
	if (isHeld()) ui.rows.append(...rows.filter((tr) => !tr.isConnected));
	else if (rows.length !== ui.rows.childElementCount || rows.some((tr, at) => tr !== ui.rows.children[at])) {
		ui.rows.replaceChildren(...rows);
	}
	const all = many(leases, 'election');
	const more = matching > rows.length ? '. Narrow the filter to see the others' : '';
	setText(ui.shown, `Showing ${rows.length} of ${all}${more}`);
	if (too_many) {
		message('choose-namespace', 'Choose a namespace', `The store has ${all}, too many for one list.`);
	} else if (rows.length) {
		message('');
	} else if (leases) {
		const by = [ui.filter.value, ui.namespace.value, ui.show.value && ui.show.selectedOptions[0]?.text];
		message('nothing-matches', 'Nothing matches', `The filter “${by.filter(Boolean).join(', ')}” hides ${all}.`);
	} else {
		message('empty', 'No election yet', 'An election exists as soon as a candidate competes in it. '
			+ 'These two commands make one; the second candidate waits for the first:');
		const command = `tenure run --server ${location.origin} --election demo/first`;
		setText(ui.messageCommands, `${command} --id one -- sleep 600\n${command} --id two -- sleep 600`);
	}
}

/** Shows a message instead of the table. @param {string} kind @param {string} [title] @param {string} [text] */
export function message(kind, title = '', text = '') {
	ui.overviewMessage.dataset.message = kind;
	ui.overviewMessage.hidden = !title;
	setText(ui.messageTitle, title);
	setText(ui.messageText, text);
	ui.messageCommands.hidden = kind !== 'empty';
	ui.clearFilter.hidden = kind !== 'nothing-matches';
	ui.namespaces.hidden = kind !== 'choose-namespace';
	ui.skeleton.hidden = kind !== 'waiting';
	ui.elections.hidden = ui.shown.hidden = Boolean(kind);
}

/** The election in focus. */
export const focused = () => entries.get(document.activeElement?.closest('tr')?.dataset.election ?? '')?.row;

export const focus = (name = '') => entries.get(name)?.tr.querySelector('a')?.focus();

// The table of elections: its filter, its rows, and the messages in its place.

import { ask, nameOf, now, store } from './api.js';
import { announce, bdi, duration, fill, find, make, many, on, say, setIcon, setTime, ui } from './dom.js';

const REFRESH_MS = 5000;
/** After a change, the overview is read this much earlier. */
const EARLIER_MS = 3000;

export const overview = {
	answer: /** @type {Overview | null} */ (null),
	/** Whether the connection was lost since the last answer. */
	isBack: false,
};

/** @type {Map<string, Entry>} */
const entries = new Map();
let [isDirty, isPointed, isStale, dueAt, time] = [true, false, false, 0, 0];
let asking = new AbortController();

on(ui.rows, 'pointerenter', (event) => (isPointed = event.pointerType === 'mouse'));
on(ui.rows, 'pointerleave', () => (isPointed = !(isDirty = true)));
on(ui.rows, 'focusout', () => (isDirty = true));

/** The order of rows does not change while the pointer or the focus is on one of them. */
const isHeld = () => isPointed || ui.rows.contains(document.activeElement);

/** @param {Lease} of @returns {[kind: string, icon: string, words: string]} */
export function describe({ holder, state, look = [], epoch, ended_at, recent_terms }) {
	if (holder) {
		if (state === 'breaking') return ['warn', state, state];
		if (look.includes('renewal_late')) return ['warn', 'late', 'renewal is late'];
		return look.includes('flapping') ? ['warn', 'flapping', `${recent_terms} terms in 20 min`] : ['led', 'led', ''];
	}
	const ended = state === 'available' ? (epoch || ended_at ? 'released' : 'never led') : state;
	if (look.includes('expected')) return ['bad', 'nobody', `${ended}, a leader is expected`];
	return look.includes('nobody_leads') ? ['bad', 'nobody', ended] : ['free', 'free', ended];
}

/** @param {string} event @param {Lease} change */
export const news = (event, { holder, state }) => (!holder ? `nobody leads, ${event}`
	: `${holder} ${state === 'breaking' ? 'has to stop' : 'leads'}`);

/** @param {Element} meter @param {Element} text @param {Lease} of @param {number} age of what the
 * store said @param {Words} words */
export function paintLeft(meter, text, { state, holder, duration_ms: whole, remaining_ms: left }, age, words) {
	const isBar = typeof whole === 'number' && left !== null;
	meter.toggleAttribute('hidden', !isBar);
	if (!isBar) return say(text, holder ? 'no end' : '');
	// The stream reports the end of a lease at once. If it did not, the lease was renewed.
	const isRenewed = left <= age && state === 'leased';
	const rest = isRenewed ? whole : Math.min(Math.max(0, left - age), whole);
	const bar = find(meter, '.fill');
	bar.style.transform = `scaleX(${(rest / whole).toFixed(3)})`;
	bar.classList.toggle('renewed', isRenewed);
	say(text, isRenewed ? 'renewed' : words(rest));
	// Screen readers get it every ten seconds only.
	const tens = `${Math.floor(Date.now() / 10_000)}`;
	if (meter.getAttribute('data-said') === tens) return;
	fill(meter, { 'data-said': tens, 'aria-valuemax': whole, 'aria-valuenow': rest, 'aria-valuetext': duration(rest) });
}

function filter() {
	const all = [...new FormData(ui.filters)].filter(([, value]) => value);
	return new URLSearchParams(/** @type {any} */ (all));
}

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

export async function refresh() {
	asking.abort();
	const { signal } = asking = new AbortController();
	[dueAt, isStale] = [Date.now() + REFRESH_MS + EARLIER_MS, false];
	const query = `${filter()}`.replace('show=look', 'look=true').replace(/\bshow=/, 'state=');
	try {
		const answer = await ask(`v1/overview?limit=200&${query}`, signal);
		if (answer.too_many) showNamespaces((await ask('v1/namespaces', signal)).namespaces);
		take(answer);
	} catch (error) {
		if (!signal.aborted) store.failed(error);
	}
}

export function tick() {
	if (Date.now() > dueAt - (isStale ? EARLIER_MS : 0)) refresh();
}

/** @param {{namespace: string, leases: number}[]} namespaces */
const showNamespaces = (namespaces) => ui.namespaces.replaceChildren(...namespaces.map(({ namespace, leases }) => {
	addNamespace(namespace);
	const link = make('a', { href: `#/?namespace=${namespace}` }, bdi(namespace));
	return make('p', {}, link, ` ${many(leases, 'election')}`);
}));

/** @param {Lease} one @param {Lease} other */
const isOther = (one, other) => one.epoch !== other.epoch || one.state !== other.state;

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
		if (overview.isBack) entry.tr.toggleAttribute('data-changed', isOther(row, entry.row));
		Object.assign(entry, { row, at: now() - answer.age_ms });
	}
	Object.assign(overview, { answer, isBack: false });
	[isDirty, dueAt] = [true, Date.now() + REFRESH_MS];
}

/** @param {Row} row */
function add(row) {
	const tr = /** @type {HTMLElement} */ (ui.row.content.firstElementChild?.cloneNode(true));
	const name = tr.dataset.election = nameOf(row);
	find(tr, 'a').setAttribute('href', `#/${name}`);
	say(find(tr, '.name bdi'), name);
	find(tr, '.meter').ariaLabel = `Time left of ${name}`;
	const entry = { row: { ...row, epoch: 0 }, at: 0, tr };
	entries.set(name, entry);
	return entry;
}

// The change is shown at once. The reasons to look come from the store, which is asked soon.
/** @param {string} event @param {Lease} change */
export function change(event, change) {
	isStale = true;
	const entry = entries.get(nameOf(change));
	if (!entry) return;
	const { row } = entry;
	const ended_at = row.holder ? new Date(now()).toISOString() : row.ended_at;
	Object.assign(entry, { row: { ...row, ...change, ended_at, epoch: change.epoch ?? row.epoch }, at: now() });
	isDirty = true;
	if (isOther(row, change)) announce(`${nameOf(change)}: ${news(event, change)}`);
}

/** Paints what changed, and the bars and times while the store is heard. */
export function paint(isLive = false) {
	const { answer } = overview;
	if (!answer || !(isDirty || isLive)) return;
	if (isDirty) arrange(answer);
	if (isLive || !time) time = now();
	for (const { row, at, tr } of entries.values()) {
		if (isDirty) paintRow(tr, row);
		paintLeft(find(tr, '.meter'), find(tr, '.left-text'), row, time - at, duration);
		const ago = row.holder ? '' : ' ago';
		setTime(row.holder ? row.granted_at : row.ended_at, (ms) => duration(time - ms) + ago, find(tr, 'time'));
	}
	isDirty = false;
}

/** @param {HTMLElement} tr @param {Row} row */
function paintRow(tr, row) {
	const [kind, icon, words] = describe(row);
	Object.assign(tr.dataset, { kind, state: row.state, waiting: row.waiters });
	setIcon(tr, icon);
	say(find(tr, '.holder'), row.holder ?? 'nobody');
	say(find(tr, '.note'), words);
	say(find(tr, '.count'), row.waiters);
}

/** While somebody is at a row, new ones come last. @param {Overview} answer */
function arrange({ elections, leases, matching, too_many }) {
	const rows = elections.flatMap((row) => entries.get(nameOf(row))?.tr ?? []);
	const { children } = ui.rows;
	if (isHeld()) ui.rows.append(...rows.filter((tr) => !tr.isConnected));
	else if (rows.length !== children.length || rows.some((tr, at) => tr !== children[at])) ui.rows.replaceChildren(...rows);
	const all = many(leases, 'election');
	say(ui.shown, `Showing ${rows.length} of ${all}${matching > rows.length ? '. Narrow the filter to see others' : ''}`);
	if (too_many) return message('choose-namespace', 'Choose a namespace', `The store has ${all}, too many for one list.`);
	if (rows.length) return message();
	if (leases) {
		const by = [ui.filter.value, ui.namespace.value, ui.show.value && ui.show.selectedOptions[0]?.text];
		return message('nothing-matches', 'Nothing matches', `The filter “${by.filter(Boolean).join(', ')}” hides ${all}.`);
	}
	message('empty', 'No election yet', 'These two commands make one:');
}

/** Shows a message instead of the table. */
export function message(kind = '', title = '', text = '') {
	ui.overviewMessage.dataset.message = kind;
	ui.overviewMessage.hidden = !kind;
	say(ui.messageTitle, title);
	say(ui.messageText, text);
	ui.messageCommands.hidden = kind !== 'empty';
	ui.clearFilter.hidden = kind !== 'nothing-matches';
	ui.namespaces.hidden = kind !== 'choose-namespace';
	ui.skeleton.hidden = kind !== 'waiting';
	ui.elections.hidden = ui.shown.hidden = !!kind && kind !== 'waiting';
}

export const rowOf = (name = '') => entries.get(name)?.row;

export const focused = () => rowOf(document.activeElement?.closest('tr')?.dataset.election);

export const focus = (name = '') => entries.get(name)?.tr.querySelector('a')?.focus();

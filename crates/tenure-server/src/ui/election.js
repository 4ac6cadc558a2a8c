// One election: its leader, the candidates that wait, and its terms.

import { Refusal, ask, nameOf, now, pathOf, store } from './api.js';
import { announce, bdi, clock, duration, find, make, many, on, precise, setIcon, say, setTime, setting, ui } from './dom.js';
import { live } from './live.js';
import { describe, paintLeft, rowOf } from './overview.js';
import { draw, gaps } from './timeline.js';

const REFRESH_MS = 2000;
const REDRAW_MS = 5000;

export const election = {
	namespace: '',
	lease: '',
	view: /** @type {View | null} */ (null),
};

/** @type {Waiter[]} */
let waiters = [];
/** @type {Term[]} newest first */
let terms = [];
let [readAt, dueAt, drawnAt, drawn, isDirty, isRangeChosen] = [0, 0, 0, '', false, false];
let reading = new AbortController();

on(ui.range, 'change', () => {
	isRangeChosen = true;
	drawTerms();
});
on(window, 'resize', drawTerms);
on(ui.copyEpoch, 'click', async () => {
	await navigator.clipboard.writeText(ui.epoch.textContent ?? '');
	announce('Copied');
});

/** @param {Id} id */
export function open(id) {
	Object.assign(election, id, { view: null });
	[terms, drawn, isRangeChosen] = [[], '', false];
	say(ui.electionTitle, nameOf(election));
	show('loading');
	refresh();
}

export const close = () => reading.abort();

export function allowActions() {
	ui.break.disabled = ui.handOver.disabled = live.connection !== 'live' || !election.view?.holder;
}

function show(state = '', problem = '') {
	ui.election.dataset.state = state;
	say(ui.electionProblem, problem);
	ui.electionBody.hidden = state !== 'ready';
	allowActions();
}

export async function refresh() {
	reading.abort();
	const { signal } = reading = new AbortController();
	dueAt = Infinity;
	const path = pathOf(election);
	try {
		const [view, queue, history] = await Promise.all(['', '/waiters', '/history'].map((part) => ask(path + part, signal)));
		readAt = Date.now();
		[election.view, waiters, terms, isDirty, dueAt] = [view, queue.waiters, history.terms, true, readAt + REFRESH_MS];
		show('ready');
	} catch (error) {
		if (signal.aborted) return;
		dueAt = Date.now() + REFRESH_MS;
		if (!(error instanceof Refusal) || ![400, 403, 404].includes(error.status)) return store.failed(error);
		election.view = null;
		show(error.status === 404 ? 'unknown' : 'refused', error.message);
	}
}

export function tick() {
	if (Date.now() > dueAt) refresh();
}

/** @param {Lease} change */
export function change(change) {
	if (nameOf(change) === nameOf(election)) refresh();
}

export function paint(isLive = false) {
	const { view } = election;
	if (!view || !(isLive || isDirty)) return;
	if (isDirty) paintAll(view);
	isDirty = false;
	const whole = typeof view.duration_ms === 'number' ? ` of ${duration(view.duration_ms)}` : '';
	paintLeft(ui.electionMeter, ui.electionLeft, view, Date.now() - readAt, (left) => precise(left) + whole);
	if (Date.now() - drawnAt > REDRAW_MS) drawTerms();
}

/** @param {View} view */
function paintAll(view) {
	const { holder, metadata, epoch, owner, granted_at } = view;
	const ended_at = terms[0]?.ended_at ?? null;
	// The overview knows why an election needs a look.
	const [kind, icon, words] = describe({ ...rowOf(nameOf(view)), ...view, ended_at });
	ui.election.dataset.kind = kind;
	setIcon(ui.election, icon);
	ui.leader.replaceChildren(bdi(holder ?? 'Nobody'), holder ? ` leads${words && `, ${words}`}` : ` leads: ${words}`);
	setTime(holder ? granted_at : ended_at, (ms) => `since ${clock(ms)} (${duration(now() - ms)})`, ui.leaderSince);
	ui.facts.hidden = !holder;
	say(ui.epoch, epoch ?? '');
	say(ui.owner, owner ?? '–');
	ui.copyEpoch.hidden = !navigator.clipboard;
	ui.metadata.replaceChildren(...Object.entries(metadata ?? {}).map(([key, value]) =>
		make('div', {}, make('dt', {}, bdi(key)), make('dd', {}, bdi(value)))));
	const { reserved_for: to, lock_delay_remaining_ms: delay, reserved_remaining_ms: left } = view;
	say(ui.waitersNone, (view.waiters || 'nobody') + (delay ? `, lock delay ${duration(delay)}` : '')
		+ (to ? `, reserved for ${to}: ${duration(left ?? 0)}` : ''));
	ui.waiters.replaceChildren(...waiters.map(({ holder: name, priority, waiting_since, waiting_ms }) =>
		make('li', {}, bdi(name), make('span', { class: 'muted' }, `priority ${priority}, for `,
			setTime(waiting_since, () => duration(waiting_ms))))));
	const next = JSON.stringify([terms, setting('times')]);
	if (next === drawn) return;
	drawn = next;
	find(ui.terms, 'tbody').replaceChildren(...terms.map(termRow));
	say(ui.termsNote, `${many(terms.length, 'term')} kept`);
	drawTerms();
}

/** @param {Term} term */
function termRow({ epoch, holder, began_at, ended_at, end, reason }) {
	const why = make('b', {}, end?.replace('_', ' ') ?? (ended_at ? 'ended' : 'leads now'));
	const cell = (/** @type {string} */ name, /** @type {Child[]} */ ...children) =>
		make('td', { role: 'cell', class: name }, ...children);
	return make('tr', { role: 'row', 'data-epoch': String(epoch) },
		cell('began', setTime(began_at, clock)),
		make('th', { role: 'rowheader' }, bdi(holder)),
		cell('lasted', began_at && ended_at ? precise(Date.parse(ended_at) - Date.parse(began_at)) : '–'),
		cell('ended', why, reason ? ': ' : ' ', bdi(reason ?? ''), ' ', ended_at ? setTime(ended_at, clock) : ''),
		cell('epoch', make('code', {}, String(epoch))));
}

function drawTerms() {
	drawnAt = Date.now();
	if (!election.view || !ui.timeline.clientWidth) return;
	const age = (now() - Date.parse(terms.at(-1)?.began_at ?? '')) / 1000 || 600;
	if (!isRangeChosen) ui.range.value = ['600', '3600'].find((range) => age <= Number(range)) ?? '86400';
	const span = { from: now() - 1000 * (Number(ui.range.value) || age), to: now() };
	const free = gaps(terms, span);
	draw(ui.timeline, terms, free, span);
	const total = free.reduce((sum, { from, to }) => sum + to - from, 0);
	say(ui.gaps, free.length ? `${many(free.length, 'gap')}, ${precise(total)}` : 'no gaps');
}

// One election: its leader, the candidates that wait, and its terms.

import { Refusal, ask, nameOf, now, pathOf } from './api.js';
import { announce, bdi, clock, duration, find, make, many, on, precise, setIcon, setText, setTime, setting, time, ui } from './dom.js';
import { describe, news, paintLeft } from './overview.js';
import { draw, gaps } from './timeline.js';

/** @import { Term, View, Waiter } from './types' */

const VIEW_MS = 2000;
const REDRAW_MS = 5000;

export const election = {
	namespace: '',
	lease: '',
	view: /** @type {View | null} */ (null),
	onError: (/** @type {unknown} */ _error) => {},
};

/** @type {Waiter[]} */
let waiters = [];
/** @type {Term[]} newest first */
let terms = [];
let [readAt, drawnAt, drawn, isDirty, isRangeChosen] = [0, 0, '', false, false];
let reading = new AbortController();

on(ui.range, 'change', () => {
	isRangeChosen = true;
	drawTerms();
});
new ResizeObserver(() => drawTerms()).observe(ui.timeline);
on(ui.copyEpoch, 'click', async () => {
	await navigator.clipboard.writeText(ui.epoch.textContent ?? '');
	announce('Copied');
});

/** @param {string} namespace @param {string} lease */
export function open(namespace, lease) {
	Object.assign(election, { namespace, lease, view: null });
	[terms, drawn, isRangeChosen] = [[], '', false];
	setText(ui.electionTitle, nameOf(election));
	show('loading');
	refresh();
}

export const close = () => reading.abort();

/** @param {string} state @param {string} [problem] */
function show(state, problem = '') {
	ui.election.dataset.state = state;
	setText(ui.electionProblem, problem);
	ui.electionBody.hidden = state !== 'ready';
}

/** @param {boolean} [isBrief] without the terms, which change with an event only */
export async function refresh(isBrief) {
	if (!isBrief) reading.abort();
	const { signal } = isBrief ? reading : (reading = new AbortController());
	readAt = Date.now();
	const path = pathOf(election);
	try {
		const [view, queue, history] = await Promise.all([ask(path, signal), ask(`${path}/waiters`, signal),
			isBrief ? { terms } : ask(`${path}/history`, signal)]);
		if (signal.aborted) return;
		[readAt, isDirty] = [Date.now(), true];
		[election.view, waiters, terms] = [view, queue.waiters, history.terms];
		show('ready');
	} catch (error) {
		if (signal.aborted) return;
		if (!(error instanceof Refusal) || ![400, 403, 404].includes(error.status)) return election.onError(error);
		election.view = null;
		if (error.status !== 404) return show('refused', error.message);
		show('unknown', 'The store has no election of this name. It exists as soon as a candidate competes in it.');
	}
}

/** Reads again what changes without an event. */
export function tick() {
	if (Date.now() - readAt > VIEW_MS) refresh(election.view !== null);
}

/** @param {string} event @param {View} change */
export function change(event, change) {
	if (nameOf(change) !== nameOf(election)) return;
	announce(news(event, change));
	refresh();
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
	const [kind, icon, words] = describe({ ...view, ended_at, look: view.waiters ? ['nobody_leads'] : [] });
	ui.election.dataset.kind = kind;
	setIcon(ui.election, icon);
	ui.leader.replaceChildren(...(holder ? [bdi(holder), news('', view).slice(holder.length)] : [`Nobody leads (${words})`]));
	setTime(ui.leaderSince, holder ? granted_at : ended_at, (ms) => `since ${clock(ms)} (${duration(now() - ms)})`);
	ui.facts.hidden = ui.handOver.disabled = ui.break.disabled = !holder;
	setText(ui.epoch, String(epoch));
	setText(ui.owner, owner ?? '–');
	ui.copyEpoch.hidden = !navigator.clipboard;
	ui.metadata.replaceChildren(...Object.entries(metadata ?? {}).map(([key, value]) =>
		make('div', {}, make('dt', {}, bdi(key)), make('dd', {}, bdi(value)))));
	setText(ui.waitersNone, waiters.length ? '' : 'nobody');
	ui.waiters.replaceChildren(...waiters.map(({ holder: name, priority, waiting_since, waiting_ms }) =>
		make('li', {}, bdi(name), make('span', { class: 'muted' }, `priority ${priority}, for `,
			time(waiting_since, () => duration(waiting_ms))))));
	const next = JSON.stringify([terms, setting('times')]);
	if (next === drawn) return;
	drawn = next;
	find(ui.terms, 'tbody').replaceChildren(...terms.map(rowOf));
	setText(ui.termsNote, `${many(terms.length, 'term')} kept`);
	drawTerms();
}

/** @param {Term} term */
function rowOf({ epoch, holder, began_at, ended_at, end, reason }) {
	const lasted = (ended_at ? Date.parse(ended_at) : now()) - Date.parse(began_at ?? '');
	const why = make('b', {}, end?.replace('_', ' ') ?? (ended_at ? 'ended' : 'leads now'));
	const cell = (/** @type {string} */ name, /** @type {(Node | string)[]} */ ...children) =>
		make('td', { role: 'cell', class: name }, ...children);
	return make('tr', { role: 'row', 'data-epoch': String(epoch) },
		cell('began', time(began_at, clock)),
		make('th', { role: 'rowheader' }, bdi(holder)),
		cell('lasted', began_at ? precise(lasted) : '–'),
		cell('ended', why, reason ? ': ' : ' ', bdi(reason ?? ''), ' ', ended_at ? time(ended_at, clock) : ''),
		cell('epoch', make('code', {}, String(epoch))));
}

function drawTerms() {
	drawnAt = Date.now();
	if (!election.view || !ui.timeline.clientWidth) return;
	const oldest = Date.parse(terms.at(-1)?.began_at ?? '') || now() - 600_000;
	const age = (now() - oldest) / 1000;
	// Unless a range was chosen, the shortest one with all terms, and a day at most.
	if (!isRangeChosen) ui.range.value = ['600', '3600'].find((range) => age <= Number(range)) ?? '86400';
	const span = { from: now() - 1000 * (Number(ui.range.value) || age), to: now() };
	const free = gaps(terms, span);
	draw(ui.timeline, terms, free, span);
	const total = free.reduce((sum, { from, to }) => sum + to - from, 0);
	setText(ui.gaps, free.length ? `${many(free.length, 'gap')}, ${precise(total)}` : 'no gaps');
}

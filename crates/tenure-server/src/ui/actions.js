// Break and hand over: a dialog with a reason, and the typed name as the confirmation.

import { Refusal, ask, nameOf, pathOf, post } from './api.js';
import { bdi, duration, make, on, precise, setText, toast, ui } from './dom.js';
import { live } from './live.js';

/** @import { Id, Kind, View, Waiter } from './types' */

/** The time to stop that the dialog proposes for a lease without an end. */
const PROPOSED_MS = 30000;
const NO_CONNECTION = 'The page is not connected to the store.';

let kind = /** @type {Kind} */ ('break');
let view = /** @type {View | null} */ (null);
let isBusy = false;
let onDone = () => {};

on(ui.actionForm, 'input', check);
on(ui.actionForm, 'submit', (event) => {
	event.preventDefault();
	check();
	if (!ui.actionSubmit.disabled) send();
});
on(ui.actionCancel, 'click', () => ui.action.close());

/** Opens the dialog, with what the store says now. @param {Kind} what @param {Id} of @param {() => void} done */
export async function open(what, of, done) {
	const path = pathOf(of);
	/** @type {[View, {waiters: Waiter[]}]} */
	const [now, { waiters }] = await Promise.all([ask(path), ask(`${path}/waiters`)]);
	if (ui.action.open) return;
	if (!now.holder) return toast(`Nobody leads ${nameOf(of)}`);
	[kind, view, onDone, isBusy] = [what, now, done, false];
	ui.actionForm.reset();
	ui.action.dataset.kind = kind;
	setText(ui.actionTitle, `${kind === 'break' ? 'Break' : 'Hand over'} ${nameOf(of)}?`);
	setText(ui.confirmName, nameOf(of));
	setText(ui.actionError, '');
	ui.lessTime.open = now.duration_ms === 'infinite';
	if (ui.lessTime.open) ui.period.value = String(PROPOSED_MS / 1000);
	ui.targets.hidden = kind === 'break';
	ui.targetList.replaceChildren(...waiters.map(({ holder, waiting_ms }, index) => make('label', {},
		make('input', { type: 'radio', name: 'to', value: holder, ...(index ? {} : { checked: '' }) }),
		bdi(holder), make('span', { class: 'muted' }, `waits for ${duration(waiting_ms)}`))));
	if (!waiters.length) ui.targetList.append('Nobody waits for this election, so it can’t be handed over.');
	check();
	ui.action.showModal();
}

/** What the form says. `period` is the typed time in milliseconds. */
const form = () => ({
	to: String(new FormData(ui.actionForm).get('to') ?? ''),
	period: ui.period.value ? Math.round(ui.period.valueAsNumber * 1000) : null,
	reason: ui.reason.value.trim(),
});

/** Shows the effect of the action, and allows it if the form is complete. */
export function check() {
	if (!view) return;
	const { holder, duration_ms, remaining_ms } = view;
	const { to, period, reason } = form();
	const isBreak = kind === 'break';
	const whole = typeof duration_ms === 'number' ? duration_ms : Infinity;
	const time = period ?? (isBreak ? remaining_ms ?? 0 : Math.min(whole, PROPOSED_MS));
	const most = precise(Math.min(time, remaining_ms ?? time));
	setText(ui.actionEffect, `${holder} learns of it with its next renewal and stops. ${isBreak
		? `Nobody else leads for up to ${most} from now.`
		: `It has up to ${most}. Then ${to || 'the new leader'} has ${precise(time)} to take over, before others may.`}`);
	setText(ui.periodWarning, period !== null && period < whole
		? `${holder} may then still act beside the next leader, until it learns of this.` : '');
	const isLive = live.connection === 'live';
	ui.actionSubmit.disabled = !(reason && ui.confirm.value.trim() === nameOf(view) && (isBreak || to)
		&& ui.period.validity.valid && isLive && !isBusy);
	ui.actionSubmit.ariaBusy = String(isBusy);
	setText(ui.actionSubmit, (isBreak ? ['Break', 'Breaking…'] : ['Hand over', 'Handing over…'])[Number(isBusy)] ?? '');
	if (!isLive) setText(ui.actionError, NO_CONNECTION);
	else if (ui.actionError.textContent === NO_CONNECTION) setText(ui.actionError, '');
}

async function send() {
	if (!view) return;
	const { to, period, reason } = form();
	const within_ms = period ?? (typeof view.duration_ms === 'number' ? view.duration_ms : PROPOSED_MS);
	const time = period === null ? {} : { break_period_ms: period };
	isBusy = true;
	setText(ui.actionError, '');
	check();
	try {
		/** @type {View} */
		const { holder, state, remaining_ms } = await post(`${pathOf(view)}/${kind}`,
			kind === 'break' ? { reason, ...time } : { reason, to, within_ms });
		ui.action.close();
		const rest = remaining_ms === null ? '' : ` within ${precise(remaining_ms)}`;
		toast(`${nameOf(view)} is ${state}: ${holder ? `${holder} has to stop${rest}` : 'nobody leads'}`);
		onDone();
	} catch (error) {
		setText(ui.actionError, error instanceof Refusal ? error.message
			: 'The store did not answer. The action may have taken effect: look before you try again.');
	}
	isBusy = false;
	check();
}

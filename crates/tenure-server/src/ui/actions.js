// Break and hand over: a dialog with a reason, and the typed name as the confirmation.

import { Refusal, ask, nameOf, pathOf, post } from './api.js';
import { bdi, duration, make, on, precise, say, toast, ui } from './dom.js';
import { live } from './live.js';
import { news } from './overview.js';

let kind = /** @type {Kind} */ ('break');
let view = /** @type {View | null} */ (null);
let isBusy = false;
let onDone = () => {};

on(ui.actionForm, 'input', check);
on(ui.actionForm, 'submit', (event) => {
	event.preventDefault();
	if (!ui.actionSubmit.disabled) send();
});
on(ui.actionCancel, 'click', () => ui.action.close());

/** @param {Kind} what @param {Id} of @param {() => void} done */
export async function open(what, of, done) {
	const path = pathOf(of);
	/** @type {[View, {waiters: Waiter[]}]} */
	const [now, { waiters }] = await Promise.all([ask(path), ask(`${path}/waiters`)]);
	if (ui.action.open) return;
	if (!now.holder) return toast(`Nobody leads ${nameOf(of)}`);
	[kind, view, onDone, isBusy] = [what, now, done, false];
	ui.actionForm.reset();
	ui.action.dataset.kind = kind;
	say(ui.actionTitle, `${kind === 'break' ? 'Break' : 'Hand over'} ${nameOf(of)}?`);
	say(ui.confirmName, nameOf(of));
	say(ui.actionError, '');
	// A lease without an end needs a time, or its holder would have none to stop.
	ui.lessTime.open = ui.period.required = now.duration_ms === 'infinite';
	if (ui.period.required) ui.period.value = '30';
	ui.targets.hidden = kind === 'break';
	ui.targetList.replaceChildren(...waiters.map(({ holder, waiting_ms }, index) => make('label', {},
		make('input', { type: 'radio', name: 'to', value: holder, ...(index ? {} : { checked: '' }) }),
		bdi(holder), make('span', { class: 'muted' }, `waits for ${duration(waiting_ms)}`))));
	if (!waiters.length) ui.targetList.append('Nobody waits for this election.');
	check();
	ui.action.showModal();
}

function form() {
	const whole = Number(view?.duration_ms);
	const time = ui.period.value ? Math.round(ui.period.valueAsNumber * 1000) : whole || 0;
	const { to = '' } = Object.fromEntries(new FormData(ui.actionForm));
	return { to, time, isShort: !(time >= whole), reason: ui.reason.value.trim() };
}

/** Shows the effect, and allows the action if the form is complete. */
export function check() {
	if (!view) return;
	const { to, time, isShort, reason } = form();
	const isBreak = kind === 'break';
	say(ui.actionEffect, `${view.holder} learns of it with its next renewal and stops. ${isBreak
		? `Nobody else leads for up to ${precise(time)} from now.`
		: `It has up to ${precise(time)}. Then ${to || 'the new leader'} has as long to take over, before others may.`}`);
	say(ui.periodWarning, isShort ? `${view.holder} may then still act beside the next leader, until it learns of this.` : '');
	ui.actionSubmit.disabled = !(reason && ui.confirm.value.trim() === nameOf(view) && (isBreak || to)
		&& ui.period.validity.valid && live.connection === 'live' && !isBusy);
	ui.actionSubmit.ariaBusy = `${isBusy}`;
	say(ui.actionSubmit, isBreak ? 'Break' : 'Hand over');
}

async function send() {
	if (!view) return;
	const { to, time, reason } = form();
	isBusy = true;
	say(ui.actionError, '');
	check();
	try {
		const next = await post(`${pathOf(view)}/${kind}`,
			kind === 'break' ? { reason, break_period_ms: time } : { reason, to, within_ms: time });
		ui.action.close();
		toast(`${nameOf(view)}: ${news(next.state, next)}`);
		onDone();
	} catch (error) {
		say(ui.actionError, error instanceof Refusal ? error.message
			: 'No answer. The action may have taken effect: look before you try again.');
	}
	isBusy = false;
	check();
}

// Break and hand over: a dialog with a reason, and the name typed as the confirmation.

import { Refusal, ask, leasePath } from './api.js';
import { button, byId, duration, element, html, input, precise, setText, toast } from './dom.js';
import { nameOf } from './overview.js';

/** @typedef {'break' | 'handover'} Kind */
/** @typedef {import('./api.js').View} View */

/** The time that the holder of a lease without an end gets to stop, unless another is typed. */
const INFINITE_MS = 30000;

export class ActionDialog {
  /** @param {() => void} onDone */
  constructor(onDone) {
    this.onDone = onDone;
    /** @type {Kind} */
    this.kind = 'break';
    /** @type {View | null} */
    this.view = null;
    this.isLive = false;
    this.isBusy = false;
    this.dialog = byId('action', HTMLDialogElement);
    this.form = byId('action-form', HTMLFormElement);
    this.form.addEventListener('input', () => this.check());
    this.form.addEventListener('submit', (event) => {
      event.preventDefault();
      if (!button('action-submit').disabled) this.send();
    });
    button('action-cancel').addEventListener('click', () => this.dialog.close());
  }

  /**
   * Opens the dialog, with what the store says now.
   * @param {Kind} kind
   * @param {string} namespace
   * @param {string} lease
   */
  async open(kind, namespace, lease) {
    if (this.dialog.open) return;
    const path = leasePath(namespace, lease);
    const [view, { waiters }] = await Promise.all([
      ask(path), kind === 'handover' ? ask(`${path}/waiters`) : { waiters: [] },
    ]);
    this.kind = kind;
    this.view = view;
    if (!view.holder) {
      toast(`Nobody leads ${nameOf(view)}`);
      return;
    }
    this.form.reset();
    this.isBusy = false;
    this.dialog.dataset.kind = kind;
    setText(html('action-title'), `${kind === 'break' ? 'Break' : 'Hand over'} ${nameOf(view)}?`);
    setText(html('confirm-name'), nameOf(view));
    setText(html('action-error'), '');
    const isInfinite = typeof view.duration_ms !== 'number';
    byId('less-time', HTMLDetailsElement).open = isInfinite;
    input('period').value = isInfinite ? String(INFINITE_MS / 1000) : '';
    this.choices(waiters);
    this.check();
    this.dialog.showModal();
  }

  /** @param {import('./api.js').Waiter[]} waiters */
  choices(waiters) {
    const at = html('targets');
    at.hidden = this.kind !== 'handover';
    const legend = element('legend', {}, 'Hand over to');
    const rows = waiters.map((waiter, index) => {
      const radio = element('input', { type: 'radio', name: 'to', value: waiter.holder });
      if (index === 0) radio.setAttribute('checked', '');
      return element('label', {}, radio, element('bdi', {}, waiter.holder),
        element('span', { class: 'muted' }, `waits for ${duration(waiter.waiting_ms)}`));
    });
    const none = element('p', {}, 'Nobody waits for this election, so it can’t be handed over.');
    at.replaceChildren(legend, ...(rows.length ? rows : [none]));
  }

  get to() {
    return String(new FormData(this.form).get('to') ?? '');
  }

  /** The typed time in milliseconds; null: the lease's own. */
  get period() {
    const { value, valueAsNumber } = input('period');
    return value === '' ? null : Math.round(valueAsNumber * 1000);
  }

  /** Says what the action does, and whether it may be sent. */
  check() {
    const view = this.view;
    if (!view) return;
    const whole = typeof view.duration_ms === 'number' ? view.duration_ms : null;
    const period = this.period;
    // A break waits for the end of the lease at most; a hand-over reserves it for as long.
    const time = period ?? (this.kind === 'break' ? view.remaining_ms ?? 0 : whole ?? INFINITE_MS);
    const most = this.kind === 'break' && view.remaining_ms !== null ? Math.min(time, view.remaining_ms) : time;
    const then = this.kind === 'break' ? `Nobody else leads for up to ${precise(most)} from now.`
      : `${this.to || 'The chosen candidate'} then has ${precise(time)} to take over; after that, any candidate may.`;
    const effect = this.kind === 'break' ? `${view.holder} learns of it with its next renewal and stops. ${then}`
      : `${view.holder} learns of it with its next renewal and stops, within ${precise(most)}. ${then}`;
    setText(html('action-effect'), effect);
    const isShort = period !== null && (whole === null || period < whole);
    setText(html('period-warning'), !isShort ? ''
      : `${view.holder} may still act when the next leader begins: it learns of this only with its next renewal. Receivers that check epochs refuse its writes.`);
    const isReady = input('reason').value.trim() !== '' && input('confirm').value.trim() === nameOf(view)
      && (this.kind === 'break' || this.to !== '') && !(period !== null && !(period >= 0));
    const submit = button('action-submit');
    submit.disabled = !isReady || !this.isLive || this.isBusy;
    submit.setAttribute('aria-busy', String(this.isBusy));
    const words = this.kind === 'break' ? ['Break', 'Breaking…'] : ['Hand over', 'Handing over…'];
    setText(submit, words[this.isBusy ? 1 : 0] ?? '');
  }

  /** Actions wait while the page is not connected. @param {boolean} isLive */
  setLive(isLive) {
    this.isLive = isLive;
    if (!this.dialog.open) return;
    const lost = 'The page is not connected to the store.';
    const error = html('action-error');
    if (!isLive) setText(error, lost);
    else if (error.textContent === lost) setText(error, '');
    this.check();
  }

  async send() {
    const view = this.view;
    if (!view) return;
    const reason = input('reason').value.trim();
    const body = this.kind === 'break'
      ? { reason, ...(this.period === null ? {} : { break_period_ms: this.period }) }
      : { reason, to: this.to, within_ms: this.period ?? (typeof view.duration_ms === 'number' ? view.duration_ms : INFINITE_MS) };
    this.isBusy = true;
    setText(html('action-error'), '');
    this.check();
    try {
      /** @type {View} */
      const next = await ask(`${leasePath(view.namespace, view.lease)}/${this.kind}`, { method: 'POST', body });
      this.dialog.close();
      const rest = next.remaining_ms === null ? '' : `, within ${precise(next.remaining_ms)}`;
      toast(next.holder ? `${nameOf(next)} is breaking: ${next.holder} has to stop${rest}`
        : `${nameOf(next)} is ${next.state}: nobody leads`);
      this.onDone();
    } catch (error) {
      setText(html('action-error'), error instanceof Refusal ? error.message
        : 'No answer from the store. Look at the state of the election before you try again: the request may have been executed.');
    } finally {
      this.isBusy = false;
      this.check();
    }
  }
}

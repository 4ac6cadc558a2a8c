// One election: who leads, who waits, and its terms.

import { Refusal, ask, leasePath, now } from './api.js';
import {
  announce, button, byId, clock, duration, element, html, precise, select, setAttribute, setIcon,
  setText, setTime, showsUtc, within,
} from './dom.js';
import { Meter, describe, nameOf } from './overview.js';
import { draw, gaps } from './timeline.js';

/** @typedef {import('./api.js').View} View */
/** @typedef {import('./api.js').Term} Term */
/** @typedef {import('./api.js').Waiter} Waiter */

const VIEW_MS = 2000;
const REDRAW_MS = 5000;

/** How a term ended, in words. @type {Record<string, string>} */
const ENDS = { released: 'released', expired: 'expired', broken: 'broken', handed_over: 'handed over' };

export class ElectionPage {
  /** @param {(error: unknown) => void} onError for errors that are not about this election */
  constructor(onError) {
    this.onError = onError;
    this.namespace = '';
    this.lease = '';
    /** @type {View | null} */
    this.view = null;
    /** @type {Waiter[]} */
    this.waiters = [];
    /** @type {Term[]} */
    this.terms = [];
    this.at = 0;
    this.drawnAt = 0;
    this.isDirty = false;
    this.isRangeChosen = false;
    this.reading = new AbortController();
    this.readAt = 0;
    this.isBusy = false;
    this.drawn = '';
    this.meter = new Meter(html('election-meter'), html('election-left'));
    select('range').addEventListener('change', () => {
      this.isRangeChosen = true;
      this.redraw();
    });
    new ResizeObserver(() => this.redraw()).observe(html('timeline'));
    button('copy-epoch').addEventListener('click', async () => {
      await navigator.clipboard.writeText(html('epoch').textContent ?? '');
      setText(button('copy-epoch'), 'Copied');
      setTimeout(() => setText(button('copy-epoch'), 'Copy'), 2000);
    });
  }

  get name() {
    return `${this.namespace}/${this.lease}`;
  }

  /** @param {string} namespace @param {string} lease */
  open(namespace, lease) {
    this.close();
    Object.assign(this, { namespace, lease, view: null, waiters: [], terms: [], drawn: '' });
    this.reading = new AbortController();
    this.isRangeChosen = false;
    setText(html('election-title'), this.name);
    this.state('loading', '');
    this.refresh();
  }

  close() {
    this.reading.abort();
    this.isBusy = false;
  }

  /** @param {string} state @param {string} problem */
  state(state, problem) {
    html('election').dataset.state = state;
    setText(html('election-problem'), problem);
    html('election-problem').hidden = !problem;
    html('election-body').hidden = state !== 'ready';
  }

  /** Reads everything again. @param {boolean} [isWhole] false: only what changes without an event */
  async refresh(isWhole = true) {
    if (this.isBusy && !isWhole) return;
    const { signal } = this.reading;
    const path = leasePath(this.namespace, this.lease);
    this.isBusy = true;
    this.readAt = Date.now();
    try {
      const [view, { waiters }, history] = await Promise.all([
        ask(path, { signal }), ask(`${path}/waiters`, { signal }),
        isWhole ? ask(`${path}/history`, { signal }) : null,
      ]);
      if (signal.aborted) return;
      this.view = view;
      this.at = now();
      this.waiters = waiters;
      if (history) this.terms = history.terms;
      this.isDirty = true;
      this.state('ready', '');
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refusal && [400, 403, 404].includes(error.status)) {
        this.view = null;
        const unknown = 'The store has no election of this name. It exists as soon as a candidate competes in it.';
        this.state(error.status === 404 ? 'unknown' : 'refused', error.status === 404 ? unknown : error.message);
      } else {
        this.onError(error);
      }
    } finally {
      if (!signal.aborted) this.isBusy = false;
    }
  }

  tick() {
    const isThere = html('election').dataset.state !== 'refused';
    if (isThere && Date.now() - this.readAt > VIEW_MS) this.refresh(this.view === null);
  }

  /** @param {string} event @param {import('./api.js').Change} change */
  change(event, change) {
    if (nameOf(change) !== this.name) return;
    this.view = change;
    this.at = now();
    this.isDirty = true;
    announce(change.holder ? `${change.holder} ${change.state === 'breaking' ? 'has to stop' : 'leads'}`
      : `nobody leads, ${event}`);
    this.refresh();
  }

  /** @param {boolean} isLive */
  paint(isLive) {
    const view = this.view;
    if (!view) return;
    if (this.isDirty) this.paintAll(view);
    if (!isLive) return;
    this.meter.paint(view, this.at, now(), (left) =>
      `${precise(left)} of ${typeof view.duration_ms === 'number' ? duration(view.duration_ms) : ''}`);
    if (Date.now() - this.drawnAt > REDRAW_MS) this.redraw();
  }

  /** @param {View} view */
  paintAll(view) {
    this.isDirty = false;
    const last = this.terms[0];
    const ended = view.holder ? null : last?.ended_at ?? null;
    const isMissed = !view.holder && view.waiters > 0;
    const shown = describe({ ...view, ended_at: ended, look: isMissed ? ['nobody_leads'] : [] });
    html('election').dataset.kind = shown.kind;
    setIcon(byId('election-icon', SVGUseElement), shown.icon);
    const leader = view.holder
      ? [element('bdi', {}, view.holder), view.state === 'breaking' ? ' has to stop' : ' leads']
      : [`Nobody leads${shown.note ? ` (${shown.note})` : ''}`];
    html('leader').replaceChildren(...leader);
    const since = view.holder ? view.granted_at : ended;
    const at = element('time');
    setTime(at, since, (ms) => `since ${clock(ms)} (${duration(now() - ms)})`);
    html('leader-since').replaceChildren(...(since ? [at] : []));
    this.fact('epoch', view.epoch === null ? '' : String(view.epoch));
    this.fact('owner', view.owner ?? '');
    button('copy-epoch').hidden = view.epoch === null || !navigator.clipboard;
    const metadata = Object.entries(view.metadata ?? {});
    html('metadata-block').hidden = metadata.length === 0;
    html('metadata').replaceChildren(...metadata.map(([key, value]) => element('div', {},
      element('dt', {}, element('bdi', {}, key)), element('dd', {}, element('bdi', {}, value)))));
    this.paintWaiters();
    const drawn = JSON.stringify([this.terms, showsUtc()]);
    if (drawn !== this.drawn) {
      this.drawn = drawn;
      this.paintTerms();
      this.redraw();
    }
  }

  /** @param {string} id @param {string} text */
  fact(id, text) {
    setText(html(id), text);
    const block = html(id).closest('div');
    if (block) block.hidden = !text;
  }

  paintWaiters() {
    const many = this.waiters.length;
    setText(html('waiters-count'), many ? '' : 'nobody');
    html('waiters').replaceChildren(...this.waiters.map((waiter) => {
      const time = element('time');
      setTime(time, waiter.waiting_since, () => duration(waiter.waiting_ms));
      return element('li', {}, element('bdi', {}, waiter.holder),
        element('span', { class: 'muted' }, `priority ${waiter.priority}, for `, time));
    }));
  }

  paintTerms() {
    const body = within(html('terms'), 'tbody');
    body.replaceChildren(...this.terms.map((term) => {
      const [began, ended] = [element('time'), element('time')];
      setTime(began, term.began_at, clock);
      setTime(ended, term.ended_at, clock);
      const [from, to] = [Date.parse(term.began_at ?? ''), Date.parse(term.ended_at ?? '')];
      const isNow = term.end === null && term.ended_at === null;
      const why = isNow ? 'leads now' : ENDS[term.end ?? ''] ?? term.end ?? 'ended';
      const lasted = isNow ? now() - from : to - from;
      const reason = term.reason ? [': ', element('bdi', {}, term.reason.replaceAll('_', ' '))] : [];
      return element('tr', { role: 'row', 'data-epoch': String(term.epoch), 'data-end': term.end ?? '' },
        element('td', { role: 'cell', class: 'began' }, began),
        element('th', { role: 'rowheader', scope: 'row' }, element('bdi', {}, term.holder)),
        element('td', { role: 'cell', class: 'lasted' }, Number.isNaN(lasted) ? '–' : precise(lasted)),
        element('td', { role: 'cell', class: 'why' }, element('span', { class: 'end' }, why), ...reason,
          ...(isNow ? [] : [' ', ended])),
        element('td', { role: 'cell', class: 'epoch' }, element('code', {}, String(term.epoch))));
    }));
    const many = this.terms.length;
    setText(html('terms-note'), many ? `${many} ${many === 1 ? 'term is' : 'terms are'} kept` : 'No term is kept');
  }

  redraw() {
    this.drawnAt = Date.now();
    if (html('election-body').hidden || !this.view) return;
    const time = now();
    const oldest = Date.parse(this.terms.at(-1)?.began_at ?? '') || time - 600_000;
    if (!this.isRangeChosen) {
      const fits = ['600', '3600', '86400'].find((range) => time - oldest <= Number(range) * 1000);
      select('range').value = fits ?? '86400';
    }
    const range = Number(select('range').value) * 1000;
    const span = { from: range ? time - range : oldest, to: time };
    const at = html('timeline');
    if (at.clientWidth > 0) draw(at, this.terms, span, at.clientWidth);
    const missing = gaps(this.terms, time).filter((gap) => gap.to > span.from);
    const total = missing.reduce((sum, gap) => sum + gap.to - Math.max(gap.from, span.from), 0);
    setText(html('gaps'), missing.length
      ? `without a leader: ${missing.length === 1 ? 'once' : `${missing.length} times`}, ${precise(total)}` : 'no gaps');
    setAttribute(at, 'data-gaps', String(missing.length));
  }
}

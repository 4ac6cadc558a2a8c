// The table of elections: its filter, its rows, and the messages that take its place.

import { ask, now, setClock } from './api.js';
import {
  announce, byId, duration, element, html, input, select, setAttribute, setIcon, setText,
  setTime, within,
} from './dom.js';

/** @typedef {import('./api.js').Row} Row */
/** @typedef {import('./api.js').Overview} Overview */
/** @typedef {import('./api.js').Change} Change */
/** @typedef {import('./api.js').Common} Common */
/** @typedef {{row: Row, at: number, tr: HTMLElement, meter: Meter, isGone: boolean}} Entry */

const LIMIT = 200;
const REFRESH_MS = 5000;
/** After a change the overview is read again this soon, if changes are rare. */
const SOON_MS = 1000;
const METER_SPOKEN_MS = 10000;

/** @param {Common} of */
export const nameOf = (of) => `${of.namespace}/${of.lease}`;

/** @param {Common} of */
export const hashOf = (of) => `#/${encodeURIComponent(of.namespace)}/${encodeURIComponent(of.lease)}`;

/** What a state is called where nobody leads. @type {Record<string, string>} */
const ENDED = {
  available: 'released', expired: 'expired', broken: 'broken', leased: '', breaking: '',
};

/**
 * The state of an election: kind for the colour, icon for the shape, and the words.
 * @param {Common & {look?: import('./api.js').Look[], recent_terms?: number,
 *   ended_at?: string | null | undefined}} row
 */
export function describe(row) {
  const look = row.look ?? [];
  if (!row.holder) {
    const isMissed = look.includes('nobody_leads') || look.includes('expected');
    const never = row.state === 'available' && row.ended_at === null;
    const ended = never ? 'never led' : ENDED[row.state] ?? row.state;
    const note = look.includes('expected') ? `${ended}, a leader is expected` : ended;
    return isMissed ? { kind: 'bad', icon: 'nobody', word: 'nobody leads', note }
      : { kind: 'free', icon: 'free', word: 'free', note };
  }
  if (row.state === 'breaking' || look.includes('breaking')) {
    return { kind: 'warn', icon: 'breaking', word: 'breaking', note: 'breaking' };
  }
  if (look.includes('renewal_late')) {
    return { kind: 'warn', icon: 'late', word: 'renewal late', note: 'renewal is late' };
  }
  if (look.includes('flapping')) {
    const terms = `${row.recent_terms} terms in 20 min`;
    return { kind: 'warn', icon: 'flapping', word: 'flapping', note: terms };
  }
  return { kind: 'led', icon: 'led', word: 'led', note: '' };
}

/** A bar of the time left. It counts down between two answers of the store. */
export class Meter {
  /** @param {HTMLElement} bar @param {HTMLElement} text */
  constructor(bar, text) {
    this.bar = bar;
    this.text = text;
    this.fill = within(bar, '.fill');
    this.spokenAt = 0;
  }

  /**
   * @param {Common} of
   * @param {number} at when the store said so, by its clock
   * @param {number} time the store's time now, or when it was last heard
   * @param {(ms: number) => string} format
   */
  paint(of, at, time, format) {
    const { duration_ms: whole, remaining_ms: left } = of;
    const isBar = of.holder !== null && typeof whole === 'number' && left !== null;
    setAttribute(this.bar, 'hidden', isBar ? null : '');
    if (!isBar) {
      setText(this.text, of.holder === null ? '–' : 'no end');
      return;
    }
    const rest = left - (time - at);
    // The end of a lease is an event. Without it the lease was renewed, and the next answer says
    // for how long.
    const isRenewed = rest <= 0 && of.state === 'leased';
    const share = isRenewed ? 1 : Math.min(1, Math.max(0, rest / whole));
    this.fill.style.transform = `scaleX(${share.toFixed(3)})`;
    setAttribute(this.bar, 'data-renewed', isRenewed ? '' : null);
    setText(this.text, isRenewed ? 'renewed' : format(rest));
    if (Date.now() - this.spokenAt < METER_SPOKEN_MS) return;
    this.spokenAt = Date.now();
    const seconds = Math.max(0, Math.round(rest / 1000));
    setAttribute(this.bar, 'aria-valuemax', String(Math.round(whole / 1000)));
    setAttribute(this.bar, 'aria-valuenow', String(Math.min(seconds, Math.round(whole / 1000))));
    setAttribute(this.bar, 'aria-valuetext', isRenewed ? 'renewed' : duration(rest));
  }
}

export class OverviewTable {
  /** @param {(error: unknown) => void} onError */
  constructor(onError) {
    this.onError = onError;
    /** @type {Overview | null} */
    this.answer = null;
    /** @type {Map<string, Entry>} */
    this.entries = new Map();
    this.table = html('elections');
    this.body = html('rows');
    this.template = byId('row', HTMLTemplateElement);
    this.isDirty = false;
    this.isPointed = false;
    this.refreshedAt = 0;
    this.isStale = false;
    /** @type {number[]} the times of the last changes */
    this.changes = [];
    /** @type {AbortController | null} */
    this.asking = null;
    /** Whether the next answer is the first after a loss of the connection. */
    this.isBack = false;
    /** @type {string[]} */
    this.namespaces = [];
    this.table.addEventListener('pointerenter', (event) => (this.isPointed = event.pointerType === 'mouse'));
    this.table.addEventListener('pointerleave', () => {
      this.isPointed = false;
      this.isDirty = true;
    });
    this.table.addEventListener('focusout', () => (this.isDirty = true));
  }

  /** The order of rows stays as it is while somebody points at one. */
  get isHeld() {
    return this.isPointed || this.table.contains(document.activeElement);
  }

  get filter() {
    return {
      q: input('filter').value.trim(),
      namespace: select('namespace').value,
      show: select('show').value,
    };
  }

  /** @param {URLSearchParams} query */
  setFilter(query) {
    input('filter').value = query.get('q') ?? '';
    this.addNamespace(query.get('namespace') ?? '');
    select('namespace').value = query.get('namespace') ?? '';
    select('show').value = query.get('show') ?? '';
    if (select('show').selectedIndex < 0) select('show').value = '';
  }

  /** The hash of the overview with this filter. */
  get hash() {
    const query = new URLSearchParams();
    for (const [key, value] of Object.entries(this.filter)) if (value) query.set(key, value);
    return query.size ? `#/?${query}` : '#/';
  }

  /** Reads the overview again. An earlier request that is still open is given up. */
  async refresh() {
    this.asking?.abort();
    const asking = new AbortController();
    this.asking = asking;
    this.isStale = false;
    this.refreshedAt = Date.now();
    const { q, namespace, show } = this.filter;
    const query = new URLSearchParams({ limit: String(LIMIT) });
    if (q) query.set('q', q);
    if (namespace) query.set('namespace', namespace);
    if (show === 'look') query.set('look', 'true');
    else if (show) query.set('state', show);
    try {
      const answer = await ask(`v1/overview?${query}`, { signal: asking.signal });
      if (asking.signal.aborted) return;
      this.take(answer);
      if (answer.too_many) await this.readNamespaces();
    } catch (error) {
      if (!asking.signal.aborted) this.onError(error);
    } finally {
      if (this.asking === asking) this.asking = null;
    }
  }

  /** Reads the overview again if it is time. */
  tick() {
    const since = Date.now() - this.refreshedAt;
    const isBusy = this.changes.length > 5;
    if (!this.asking && (since > REFRESH_MS || (this.isStale && !isBusy && since > SOON_MS))) {
      this.refresh();
    }
    const old = Date.now() - 1000;
    this.changes = this.changes.filter((at) => at > old);
  }

  async readNamespaces() {
    /** @type {{namespaces: {namespace: string, leases: number}[]}} */
    const { namespaces } = await ask('v1/namespaces');
    for (const { namespace } of namespaces) this.addNamespace(namespace);
    html('namespaces').replaceChildren(...namespaces.map(({ namespace, leases }) => element('li', {},
      element('a', { href: `#/?namespace=${encodeURIComponent(namespace)}` }, element('bdi', {}, namespace)),
      ` ${leases.toLocaleString('en-GB')} elections`)));
  }

  /** @param {string} namespace */
  addNamespace(namespace) {
    const options = select('namespace').options;
    if (!namespace || [...options].some((option) => option.value === namespace)) return;
    const after = [...options].find((option) => option.value > namespace);
    const option = new Option(namespace, namespace);
    select('namespace').add(option, after ?? null);
  }

  /** @param {Overview} answer */
  take(answer) {
    setClock(answer.at);
    const at = now() - answer.age_ms;
    const before = new Map(this.entries);
    const named = new Set();
    for (const row of answer.elections) {
      const name = nameOf(row);
      named.add(name);
      this.addNamespace(row.namespace);
      const entry = this.entries.get(name) ?? this.add(name, row);
      const was = before.get(name)?.row;
      const isOther = !was || was.epoch !== row.epoch || was.state !== row.state;
      if (this.isBack) setAttribute(entry.tr, 'data-changed', isOther ? '' : null);
      Object.assign(entry, { row, at, isGone: false });
    }
    for (const [name, entry] of this.entries) {
      if (named.has(name)) continue;
      if (this.isHeld) entry.isGone = true;
      else this.remove(name, entry);
    }
    this.isBack = false;
    this.answer = answer;
    this.isDirty = true;
  }

  /** @param {string} name @param {Row} row @returns {Entry} */
  add(name, row) {
    const tr = /** @type {HTMLElement} */ (this.template.content.firstElementChild?.cloneNode(true));
    tr.dataset.election = name;
    const link = within(tr, '.name a');
    link.setAttribute('href', hashOf(row));
    within(link, 'bdi').textContent = name;
    const meter = new Meter(within(tr, '.meter'), within(tr, '.left-text'));
    setAttribute(meter.bar, 'aria-label', `Time left of ${name}`);
    const entry = { row, at: now(), tr, meter, isGone: false };
    this.entries.set(name, entry);
    return entry;
  }

  /** @param {string} name @param {Entry} entry */
  remove(name, entry) {
    entry.tr.remove();
    this.entries.delete(name);
  }

  /** Takes a change from the stream at once. The reasons to look are the store's: it is asked soon.
   * @param {string} event @param {Change} change */
  change(event, change) {
    this.changes.push(Date.now());
    this.isStale = true;
    const entry = this.entries.get(nameOf(change));
    if (!entry) return;
    const was = entry.row;
    const isLed = change.holder !== null;
    const look = was.look.filter((reason) => !isLed || !['nobody_leads', 'expected', 'breaking'].includes(reason));
    entry.row = {
      ...was, ...change, look,
      ended_at: isLed || !was.holder ? was.ended_at : new Date(now()).toISOString(),
    };
    entry.at = now();
    this.isDirty = true;
    if (was.holder !== change.holder || was.state !== change.state) {
      const what = isLed ? `${change.holder} leads` : `nobody leads, ${event}`;
      announce(`${nameOf(change)}: ${change.state === 'breaking' ? 'breaking' : what}`);
    }
  }

  /** Paints what changed, and the bars if the store is heard.
   * @param {boolean} isLive */
  paint(isLive) {
    if (this.isDirty) this.paintRows();
    if (!isLive && !this.isDirty) return;
    const time = now();
    for (const { row, at, tr, meter } of this.entries.values()) {
      meter.paint(row, at, time, duration);
      const since = row.holder ? row.granted_at : row.ended_at;
      const ago = row.holder ? '' : ' ago';
      setTime(within(tr, 'time'), since, (began) => duration(time - began) + ago);
    }
  }

  paintRows() {
    this.isDirty = false;
    const answer = this.answer;
    if (!answer) return;
    this.arrange(answer);
    for (const { row, tr, isGone } of this.entries.values()) {
      const { kind, icon, word, note } = describe(row);
      Object.assign(tr.dataset, { kind, state: row.state, gone: String(isGone) });
      setIcon(within(tr, '.mark').children[0] ?? tr, icon);
      setText(tr.querySelector('.mark .hidden') ?? tr, word);
      setText(within(tr, '.holder'), row.holder ?? 'nobody');
      setText(within(tr, '.note'), isGone ? 'no longer listed' : note);
      setText(within(tr, '.count'), String(row.waiters));
      tr.classList.toggle('none-wait', row.waiters === 0);
    }
    const rows = answer.elections.length;
    const more = answer.matching > rows ? ': narrow the filter to see the others' : '';
    const held = this.isHeld && rows ? ' · the order is kept while you are in the table' : '';
    setText(html('shown'), answer.too_many ? '' : `Showing ${rows} of ${answer.leases}${more}${held}`);
    this.paintMessage(answer);
  }

  /** Puts the rows in the store's order, unless somebody points at one: then new ones come last.
   * @param {Overview} answer */
  arrange(answer) {
    if (!this.isHeld) {
      for (const [name, entry] of this.entries) if (entry.isGone) this.remove(name, entry);
    }
    /** @type {Element | null} */
    let next = this.body.firstElementChild;
    for (const row of answer.elections) {
      const tr = this.entries.get(nameOf(row))?.tr;
      if (!tr) continue;
      if (this.isHeld) {
        if (!tr.isConnected) this.body.append(tr);
      } else if (tr === next) {
        next = next.nextElementSibling;
      } else {
        this.body.insertBefore(tr, next);
      }
    }
  }

  /** @param {Overview} answer */
  paintMessage(answer) {
    const { q, namespace, show } = this.filter;
    const isFiltered = Boolean(q || namespace || show);
    const none = answer.elections.length === 0;
    if (answer.too_many) {
      this.message('choose-namespace', 'Choose a namespace',
        `The store has ${answer.leases.toLocaleString('en-GB')} elections: too many for one list.`);
    } else if (none && isFiltered) {
      const by = [q && `the text “${q}”`, namespace && `the namespace ${namespace}`,
        show && `“${select('show').selectedOptions[0]?.text}”`].filter(Boolean).join(' and ');
      const hidden = answer.leases === 1 ? 'one election' : `${answer.leases.toLocaleString('en-GB')} elections`;
      this.message('nothing-matches', 'Nothing matches', `The filter for ${by} hides ${hidden}.`);
    } else if (none) {
      this.message('empty', 'No election yet',
        'An election exists as soon as a candidate competes in it. These two commands make one, with two candidates; the second waits for the first:');
      const at = new URL('.', location.href).href.replace(/\/$/, '');
      const command = `tenure run --server ${at} --election demo/first`;
      setText(html('message-commands'), `${command} --id one -- sleep 600\n${command} --id two -- sleep 600`);
    } else {
      this.message('', '', '');
    }
  }

  /** @param {string} kind @param {string} title @param {string} text */
  message(kind, title, text) {
    const at = html('overview-message');
    at.hidden = !kind;
    at.dataset.message = kind;
    setText(html('message-title'), title);
    setText(html('message-text'), text);
    html('message-commands').hidden = kind !== 'empty';
    html('clear-filter').hidden = kind !== 'nothing-matches';
    html('namespaces').hidden = kind !== 'choose-namespace';
    this.table.hidden = Boolean(kind);
    html('skeleton').hidden = kind !== 'waiting';
  }

  /** The links of the rows, in their order. @returns {HTMLElement[]} */
  get links() {
    return [...this.body.querySelectorAll('a')];
  }

  /** The election in focus. */
  get focused() {
    const name = document.activeElement?.closest('tr')?.dataset.election ?? '';
    return this.entries.get(name)?.row ?? null;
  }
}


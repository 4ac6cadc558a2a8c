// The page: signing in, the parts of the page by the address, the connection, keys, settings.

import {
  Refusal, SESSION, ask, keepSession, lastWord, mayChange, session, setClock,
} from './api.js';
import {
  announce, button, byId, clock, duration, html, input, read, select, setText, showUtc, showsUtc,
  write,
} from './dom.js';
import { ActionDialog } from './actions.js';
import { ElectionPage } from './election.js';
import { Live } from './live.js';
import { OverviewTable, hashOf } from './overview.js';

/** @typedef {'none' | 'signed-out' | 'expired' | 'restarted' | 'code'} SignedOut */

const PAINT_MS = 250;
const WAITING_AFTER_MS = 3000;
/** Without a word for this long, the page counts as disconnected: it asks every 5 s at least. */
const SILENCE_MS = 7000;
const THEME = 'tenure.theme';
const body = document.body;

/** @type {import('./api.js').Me | null} */
let me = null;
let startedAt = Date.now();
let isDown = false;
/** The election whose row gets the focus when the overview comes back. */
let opened = '';

const overview = new OverviewTable(failed);
const election = new ElectionPage(failed);
const action = new ActionDialog(() => {
  overview.isStale = true;
  if (body.dataset.view === 'election') election.refresh();
});
const live = new Live(changed, connected, failed);

// Signing in

/** Finds out as whom the page may ask, and shows what the address names. */
async function start() {
  const code = new URLSearchParams(location.hash.slice(1)).get('code');
  if (code !== null) {
    // The code is good once. It must not stay in the history, whatever becomes of the request.
    history.replaceState(null, '', location.pathname + location.search);
    try {
      await signIn({ body: { code } });
    } catch (error) {
      if (error instanceof Refusal) return signedOut('code', error.message);
      return again(error);
    }
  }
  try {
    me = await ask('v1/whoami');
  } catch (error) {
    return error instanceof Refusal && error.status === 401 ? failed(error) : again(error);
  }
  showMe();
  body.dataset.view = '';
  navigate();
  live.open();
}

/** Tries to start again while the store does not answer. @param {unknown} error */
function again(error) {
  const detail = error instanceof Refusal ? error.message : '';
  waiting(detail);
  setTimeout(start, 2000);
}

/** @param {{body?: unknown, token?: string}} by */
async function signIn(by) {
  keepSession(await ask('v1/session', { method: 'POST', ...by }));
}

/** @param {SignedOut} reason @param {string} [detail] */
function signedOut(reason, detail = '') {
  keepSession(null);
  live.close();
  election.close();
  for (const dialog of document.querySelectorAll('dialog')) dialog.close();
  me = null;
  const texts = /** @type {Record<SignedOut, [string, string]>} */ ({
    none: ['Sign in', 'This store shows its elections to people who may read them.'],
    'signed-out': ['You are signed out', 'This browser has no session any more.'],
    expired: ['Your session has ended', 'A session lasts 12 hours at most. Sign in again to continue.'],
    restarted: ['You have to sign in again', 'The store was restarted, or your access was changed: both end all earlier sessions.'],
    code: ['This address does not work any more', 'Its code works once, and for a minute. Ask for a new one.'],
  });
  html('signin').dataset.reason = reason;
  setText(html('signin-title'), texts[reason][0]);
  setText(html('signin-why'), texts[reason][1]);
  setText(html('signin-error'), reason === 'code' ? detail : '');
  html('signin-plain').hidden = location.protocol === 'https:' || isLocal();
  button('menu-button').hidden = true;
  html('banner-open').hidden = true;
  show('signin');
  document.title = 'Sign in · tenure';
  announce(texts[reason][0]);
  input('token').focus();
}

byId('signin-form', HTMLFormElement).addEventListener('submit', async (event) => {
  event.preventDefault();
  const token = input('token').value.trim();
  button('signin-submit').disabled = true;
  setText(html('signin-error'), '');
  try {
    await signIn({ token });
    input('token').value = '';
    await start();
  } catch (error) {
    const wrong = 'The store does not accept this token: it is mistyped, unknown, or has ended.';
    setText(html('signin-error'), !(error instanceof Refusal) ? 'No answer from the store.'
      : error.status === 401 ? wrong : error.message);
  } finally {
    button('signin-submit').disabled = false;
  }
});

button('sign-out').addEventListener('click', () => {
  html('menu').hidePopover();
  signedOut('signed-out');
});

function isLocal() {
  return /^(localhost|.+\.localhost|127\..+|\[::1\])$/.test(location.hostname);
}

function showMe() {
  if (!me) return;
  const isOpen = me.kind === 'anyone';
  body.dataset.mode = isOpen ? 'open' : 'signed-in';
  const mayAny = isOpen || me.grants.some((grant) => ['operator', 'admin'].includes(grant.role));
  body.dataset.mayChange = String(mayAny);
  const name = me.principal ?? 'anyone';
  button('menu-button').hidden = false;
  setText(button('menu-button').children[0] ?? body, name);
  setText(html('menu-who'), name);
  const grants = me.grants.map(({ role, namespace, prefix }) =>
    `${role} ${namespace === '*' ? 'everywhere' : `in ${namespace}`}${prefix ? ` for ${prefix}…` : ''}`);
  const rights = isOpen ? 'The store has no access control: everybody may do everything.'
    : `Your rights: ${grants.join(', ') || 'none'}.`;
  const readOnly = 'Break and hand over need the role operator, so the page does not show them.';
  setText(html('menu-rights'), mayAny ? rights : `${rights} ${readOnly}`);
  const until = session()?.expires_at ?? me.expires;
  html('menu-session').hidden = !until || isOpen;
  setText(html('menu-session'), until ? `Signed in until ${clock(Date.parse(until))}.` : '');
  button('sign-out').hidden = isOpen || !session();
  html('banner-open').hidden = !isOpen;
  setText(html('banner-open'), isLocal()
    ? 'This store has no access control: anybody on this machine may change everything.'
    : 'This store has no access control: anybody who can reach it may change everything.');
}

/** Handles a failed request. @param {unknown} error */
function failed(error) {
  if (error instanceof Refusal && error.status === 401) {
    const kept = session();
    const hasEnded = kept && Date.parse(kept.expires_at) <= Date.now();
    return signedOut(!kept ? 'none' : hasEnded ? 'expired' : 'restarted');
  }
  if (error instanceof Refusal && error.status < 500) {
    overview.message('refused', 'The store refuses to show this', error.message);
    show(body.dataset.view === 'loading' ? 'overview' : body.dataset.view ?? 'overview');
    return undefined;
  }
  return live.lost();
}

// The connection

/** @param {import('./live.js').StreamEvent} event */
function changed({ event, data }) {
  if (event === 'reset') {
    overview.refresh();
    if (body.dataset.view === 'election') election.refresh();
    return;
  }
  if (typeof data?.lease !== 'string') return;
  overview.change(event, data);
  if (body.dataset.view === 'election') election.change(event, data);
}

/** @param {import('./live.js').Connection} connection */
function connected(connection) {
  const shown = connection === 'paused' ? 'connecting' : connection;
  body.dataset.connection = shown;
  const words = { live: 'live', connecting: 'connecting', down: 'not connected' };
  setText(html('connection').children[1] ?? body, words[shown]);
  if (shown === 'live' && isDown) {
    isDown = false;
    overview.isBack = true;
    overview.refresh();
    if (body.dataset.view === 'election') election.refresh();
    announce('Connected again');
  } else if (shown === 'down' && !isDown) {
    isDown = true;
    announce('The connection to the store is lost. What is shown may be old');
  }
  html('banner-down').hidden = shown !== 'down';
  action.setLive(shown === 'live');
  for (const id of ['break', 'hand-over']) button(id).disabled = shown !== 'live';
}

button('try-now').addEventListener('click', () => live.open());
addEventListener('offline', () => live.lost());
addEventListener('online', () => live.connection === 'down' && live.open());
addEventListener('storage', (event) => event.key === SESSION && start());
document.addEventListener('visibilitychange', () => {
  if (!me) return;
  if (document.hidden) {
    live.close();
  } else {
    refresh();
    live.open();
  }
});

function refresh() {
  overview.refresh();
  if (body.dataset.view === 'election') election.refresh();
}

// The parts of the page

/** @param {string} view */
function show(view) {
  body.dataset.view = view;
  for (const id of ['signin', 'overview', 'election']) html(id).hidden = id !== view;
}

/** Shows what the address names: an election, or the overview with its filter. */
function navigate() {
  if (!me) return;
  const [, namespace, lease] = location.hash.slice(1).split('?')[0]?.split('/').map(decode) ?? [];
  if (namespace && lease) {
    opened = `${namespace}/${lease}`;
    html('back').setAttribute('href', overview.hash);
    show('election');
    const may = mayChange(me, namespace, lease);
    button('break').hidden = !may;
    button('hand-over').hidden = !may;
    election.open(namespace, lease);
    html('election-title').focus();
  } else {
    election.close();
    const wasElsewhere = body.dataset.view === 'election';
    overview.setFilter(new URLSearchParams(location.hash.split('?')[1] ?? ''));
    show('overview');
    if (!overview.answer) waiting('');
    overview.refresh();
    const row = wasElsewhere ? overview.entries.get(opened)?.tr.querySelector('a') : null;
    row?.focus();
  }
  paintTop();
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Shows an empty table, and after three seconds that the store does not answer. @param {string} detail */
function waiting(detail) {
  show('overview');
  body.dataset.view = me ? 'overview' : 'loading';
  const isLong = Date.now() - startedAt > WAITING_AFTER_MS;
  overview.message('waiting', isLong ? 'Waiting for the store' : '', isLong ? detail : '');
  html('elections').hidden = false;
}

addEventListener('hashchange', () => (location.hash.startsWith('#code=') ? start() : navigate()));

let typing = 0;
html('filters').addEventListener('input', () => {
  clearTimeout(typing);
  typing = setTimeout(() => {
    history.replaceState(null, '', overview.hash);
    overview.refresh();
  }, 150);
});
html('filters').addEventListener('submit', (event) => event.preventDefault());
button('clear-filter').addEventListener('click', () => {
  location.hash = '#/';
  input('filter').focus();
});
button('break').addEventListener('click', () => act('break'));
button('hand-over').addEventListener('click', () => act('handover'));

/** Opens the dialog for the election on the page, or for the one in focus.
 * @param {import('./actions.js').Kind} kind */
async function act(kind) {
  const of = body.dataset.view === 'election' ? election : overview.focused;
  if (!me || !of || live.connection !== 'live' || !mayChange(me, of.namespace, of.lease)) return;
  try {
    await action.open(kind, of.namespace, of.lease);
  } catch (error) {
    failed(error);
  }
}

// Keys

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
  const at = event.target instanceof HTMLElement ? event.target : body;
  const isTyping = at.matches('input, textarea, select');
  const view = body.dataset.view;
  if (event.key === 'Escape' && !document.querySelector('[popover]:popover-open')) {
    if (at === input('filter')) at.blur();
    else if (view === 'election') location.hash = overview.hash;
    return;
  }
  if (isTyping && !(at === input('filter') && event.key === 'ArrowDown')) return;
  /** @type {Record<string, () => void>} */
  const keys = { '?': help };
  if (view === 'overview') {
    Object.assign(keys, {
      '/': () => input('filter').select(), j: () => move(1), ArrowDown: () => move(1),
      k: () => move(-1), ArrowUp: () => move(-1),
    });
  }
  if (view === 'overview' || view === 'election') {
    Object.assign(keys, { b: () => act('break'), h: () => act('handover') });
  }
  const key = keys[event.key];
  if (!key) return;
  event.preventDefault();
  key();
});

/** Moves the focus to another row. @param {number} by */
function move(by) {
  const links = overview.links;
  const at = links.findIndex((link) => link === document.activeElement);
  const next = at < 0 ? (by > 0 ? 0 : links.length - 1) : at + by;
  links[Math.min(Math.max(next, 0), links.length - 1)]?.focus();
}

const help = () => byId('help', HTMLDialogElement).showModal();
button('help-button').addEventListener('click', help);
button('help-close').addEventListener('click', () => byId('help', HTMLDialogElement).close());
html('skip').addEventListener('click', (event) => {
  event.preventDefault();
  html('main').focus();
});

// Settings

function applyTheme() {
  document.documentElement.dataset.theme = select('theme').value;
}
select('theme').value = read(THEME) ?? 'auto';
applyTheme();
select('theme').addEventListener('change', () => {
  write(THEME, select('theme').value);
  applyTheme();
});
for (const id of ['times', 'times-election']) {
  select(id).value = showsUtc() ? 'utc' : 'local';
  select(id).addEventListener('change', () => {
    showUtc(select(id).value === 'utc');
    for (const other of ['times', 'times-election']) select(other).value = select(id).value;
    election.isDirty = true;
    paint();
  });
}

// Painting, four times a second

function paintTop() {
  const answer = overview.answer;
  const host = location.host;
  setText(html('store'), host);
  if (!answer || !me) return;
  const look = answer.needs_look;
  html('total').hidden = false;
  html('attention').hidden = look === 0;
  setText(html('total'), answer.leases === 1 ? '1 election' : `${answer.leases.toLocaleString('en-GB')} elections`);
  setText(html('attention'), look === 1 ? '1 needs a look' : `${look} need a look`);
  const what = body.dataset.view === 'election' ? election.name : look ? `${look} need a look` : 'tenure';
  document.title = `${what} · ${host}`;
}

function paint() {
  const isLive = live.connection === 'live';
  if (body.dataset.view === 'overview') overview.paint(isLive);
  if (body.dataset.view === 'election') election.paint(isLive);
  paintTop();
  if (isDown) {
    const next = Math.max(0, Math.ceil((live.nextTry - Date.now()) / 1000));
    const tried = live.abort ? 'Trying now.' : `Next try in ${next} s.`;
    setText(html('down-text'), `Not connected. The last word from the store was ${duration(Date.now() - lastWord)} ago, and what you see is from then. ${tried}`);
  }
}

setInterval(() => {
  if (document.hidden) return;
  if (me) {
    if (live.connection === 'live') {
      overview.tick();
      if (body.dataset.view === 'election') election.tick();
      if (Date.now() - lastWord > SILENCE_MS) live.lost();
    }
  }
  if (me && !overview.answer && body.dataset.view === 'overview'
    && Date.now() - startedAt > WAITING_AFTER_MS && html('overview-message').dataset.message === 'waiting') {
    waiting('');
  }
  requestAnimationFrame(paint);
}, PAINT_MS);

paintTop();
start();

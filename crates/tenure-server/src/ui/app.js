// The page: signing in, its parts by address, the connection, keys and settings.

/// <reference path="types.d.ts" />

import { Refusal, SESSION, ask, isOperator, keepSession, mayChange, nameOf, post, send, session, store } from './api.js';
import * as actions from './actions.js';
import { announce, duration, find, many, on, say, setting, toast, ui } from './dom.js';
import * as one from './election.js';
import * as stream from './live.js';
import * as table from './overview.js';

/** Without an answer this long, it is lost. */
const SILENCE_MS = 7000;
const { live } = stream;
const { body } = document;

let me = /** @type {Me | null} */ (null);
let wasDown = false;
const isElection = () => body.dataset.view === 'election';

// Signing in

/** The code in the address, which must not stay in the history. */
function takeCode() {
	const code = new URLSearchParams(location.hash.slice(1)).get('code');
	if (code !== null) history.replaceState(null, '', location.pathname);
	return code;
}

async function start(code = takeCode()) {
	try {
		// With a code, a page without a session has nothing to ask yet.
		me = code === null || session() ? await ask('v1/whoami').catch(orNull) : null;
		if (code !== null && await exchange(code)) me = await ask('v1/whoami');
	} catch {
		return setTimeout(start, 2000, code);
	}
	if (!me) return code === null ? expire() : signOut('code');
	showMe(me);
	navigate();
	stream.open();
}

/** Null for a refusal that another try would not change. @param {unknown} error */
function orNull(error) {
	if (error instanceof Refusal && [400, 401, 403].includes(error.status)) return null;
	throw error;
}

/** Makes a session from a code, and keeps it. A person who is signed in is asked before: anybody
 * can make somebody open an address with a code. @param {string} code */
async function exchange(code) {
	const next = await post('v1/session', { code }, '').catch(orNull);
	if (!next && me) toast(`${REASONS.code.join('. ')} You are still signed in.`);
	if (!next) return false;
	const agrees = !me || await asksToReplace(next.principal);
	const last = agrees ? session() : next;
	if (last) end(last.session).catch(() => {});
	if (agrees) keepSession(next);
	return agrees;
}

/** @param {string} principal @returns {Promise<boolean>} */
function asksToReplace(principal) {
	const { replace } = ui;
	replace.close();
	say(ui.replaceText, `You are signed in as ${me?.principal ?? 'anyone'}. This address signs you in as ${principal}.`);
	replace.returnValue = '';
	replace.showModal();
	return new Promise((answer) => replace.addEventListener('close', () => answer(replace.returnValue === 'yes'), { once: true }));
}

/** Ends a session at the store. @param {string} token */
const end = (token) => send('v1/session', { method: 'DELETE', keepalive: true }, token).catch(orNull);

/** @type {Record<SignedOut, [title: string, why: string]>} */
const REASONS = {
	none: ['Sign in', 'This store shows elections to people who may read them.'],
	'signed-out': ['You are signed out', 'This browser has no session any more.'],
	expired: ['Your session has ended', 'A session lasts 12 hours at most.'],
	restarted: ['Sign in again', 'The store was restarted, or your access was changed.'],
	code: ['This address has expired', 'Its code works once, for a minute.'],
};

/** @param {SignedOut} reason */
function signOut(reason) {
	me = null;
	keepSession(null);
	stream.close();
	one.close();
	for (const dialog of document.querySelectorAll('dialog')) dialog.close();
	const [title, why] = REASONS[reason];
	ui.signin.dataset.reason = reason;
	say(ui.signinTitle, title);
	say(ui.signinWhy, why);
	say(ui.signinError, '');
	ui.signinPlain.hidden = isSecureContext;
	ui.menuButton.hidden = ui.bannerOpen.hidden = ui.bannerDown.hidden = true;
	ui.total.textContent = ui.attention.textContent = '';
	show('signin');
	announce(title);
	ui.token.focus();
}

on(ui.signinForm, 'submit', async (event) => {
	event.preventDefault();
	ui.signinSubmit.disabled = true;
	try {
		keepSession(await post('v1/session', {}, ui.token.value.trim()));
		ui.signinForm.reset();
		await start();
	} catch (error) {
		const { status, message } = error instanceof Refusal ? error : new Refusal(0, 'No answer.');
		say(ui.signinError, status === 401 ? 'The store refuses this token.' : message);
	}
	ui.signinSubmit.disabled = false;
});

on(ui.signOut, 'click', async () => {
	const last = session();
	ui.menu.hidePopover();
	signOut('signed-out');
	if (last) await end(last.session).catch(() => say(ui.signinError, 'The store has not ended the session, which lasts until it expires.'));
});

/** @param {Me} of */
function showMe({ kind, principal, grants }) {
	const isOpen = kind === 'anyone';
	const mayAny = isOpen || grants.some(({ role }) => isOperator(role));
	const rights = grants.map(({ role, namespace, prefix = '' }) => `${role} for ${namespace}/${prefix}*`.replace('*/*', 'everything'));
	body.dataset.mode = isOpen ? 'open' : 'signed-in';
	body.dataset.mayChange = `${mayAny}`;
	ui.menuButton.hidden = false;
	say(find(ui.menuButton, 'bdi'), principal ?? 'anyone');
	say(ui.menuRights, `Rights: ${isOpen ? 'everything' : rights.join(', ') || 'none'}.${mayAny ? ''
		: ' Break and hand over need the role operator.'}`);
	ui.signOut.hidden = isOpen || !session();
	ui.bannerOpen.hidden = !isOpen;
}

function expire() {
	const kept = session();
	signOut(!kept ? 'none' : Date.parse(kept.expires_at) <= Date.now() ? 'expired' : 'restarted');
}

store.failed = (error) => {
	if (!me || document.hidden) return;
	if (!(error instanceof Refusal) || error.status >= 500 || error.status === 429) return stream.lost();
	if (error.status === 401) return expire();
	table.message('refused', 'Refused', error.message);
};

// The connection

stream.live.onChange = (event, data) => {
	if (event === 'reset') return refresh();
	table.change(event, data);
	if (isElection()) one.change(data);
};

live.onConnection = () => {
	const { connection } = live;
	const isDown = connection === 'down';
	body.dataset.connection = connection;
	say(find(ui.connection, '.word'), isDown ? 'not connected' : connection);
	ui.bannerDown.hidden = !isDown || !me;
	one.allowActions();
	actions.check();
	if (connection === 'connecting' || wasDown === isDown) return;
	wasDown = isDown;
	table.overview.isBack = !isDown;
	announce(isDown ? 'Not connected to the store' : 'Connected again');
	if (!isDown) refresh();
};

on(ui.tryNow, 'click', stream.open);
on(window, 'offline', store.failed);
on(window, 'online', () => me && stream.open());
on(window, 'storage', ({ key }) => key === SESSION && start());
on(document, 'visibilitychange', () => {
	if (!me) return;
	if (document.hidden) return stream.close();
	table.overview.isBack = true;
	refresh();
	stream.open();
});

function refresh() {
	table.refresh();
	if (isElection()) one.refresh();
}

// The parts of the page

function show(view = '') {
	body.dataset.view = view;
	for (const at of document.querySelectorAll('section')) at.hidden = at.id !== view;
}

/** Shows what the address names. */
function navigate() {
	if (!me) return;
	const [path = '', query] = location.hash.slice(2).split('?');
	const [namespace, lease] = path.split('/');
	const last = isElection() ? nameOf(one.election) : '';
	if (namespace && lease) {
		ui.back.href = table.hash();
		ui.break.hidden = ui.handOver.hidden = !mayChange(me, { namespace, lease });
		show('election');
		one.open({ namespace, lease });
		return ui.electionTitle.focus();
	}
	one.close();
	table.setFilter(new URLSearchParams(query));
	show('overview');
	table.refresh();
	table.focus(last);
}

on(window, 'hashchange', () => (location.hash.startsWith('#code=') ? start() : navigate()));

let typing = 0;
on(ui.filters, 'submit', (event) => event.preventDefault());
on(ui.filters, 'input', () => {
	clearTimeout(typing);
	typing = setTimeout(() => {
		history.replaceState(null, '', table.hash());
		table.refresh();
	}, 150);
});
on(ui.clearFilter, 'click', () => {
	location.hash = '#/';
	ui.filter.focus();
});

/** @param {Kind} kind */
function act(kind) {
	const of = isElection() ? one.election : table.focused();
	if (me && of && live.connection === 'live' && mayChange(me, of)) actions.open(kind, of, refresh).catch(({ message }) => toast(message));
}

on(ui.break, 'click', () => act('break'));
on(ui.handOver, 'click', () => act('handover'));

// Keys

const [help, next, previous] = [() => ui.help.showModal(), () => move(1), () => move(-1)];
/** @type {Record<string, () => void>} */
const KEYS = {
	'?': help, b: () => act('break'), h: () => act('handover'),
	'/': () => ui.filter.focus(), j: next, ArrowDown: next, k: previous, ArrowUp: previous,
};

on(document, 'keydown', (event) => {
	const { key, target } = event;
	const isElsewhere = !me || document.querySelector('dialog[open], :popover-open');
	if (isElsewhere || event.ctrlKey || event.metaKey || event.altKey) return;
	if (key === 'Escape') {
		ui.filter.blur();
		if (isElection()) location.hash = table.hash();
	}
	const isTyping = target.matches('input, select') && !(target === ui.filter && key === 'ArrowDown');
	if (!KEYS[key] || isTyping || (isElection() && !'?bh'.includes(key))) return;
	event.preventDefault();
	KEYS[key]();
});

function move(by = 1) {
	const links = [...ui.rows.querySelectorAll('a')];
	const at = links.findIndex((link) => link === document.activeElement) + by;
	links[Math.min(Math.max(at, 0), links.length - 1)]?.focus();
}

on(ui.helpButton, 'click', help);

for (const name of /** @type {const} */ (['theme', 'times'])) {
	const apply = () => (document.documentElement.dataset[name] = ui[name].value);
	ui[name].value = setting(name) ?? ui[name].value;
	apply();
	on(ui[name], 'change', () => {
		localStorage.setItem(`tenure.${name}`, ui[name].value);
		apply();
		if (me) refresh();
	});
}

function paint() {
	const { answer, isBack } = table.overview;
	if (!ui.skeleton.hidden && performance.now() > 3e3) table.message('waiting', 'Waiting for the store');
	(isElection() ? one : table).paint(live.connection === 'live' && !isBack);
	if (answer && me) {
		const { leases, needs_look } = answer;
		say(ui.total, many(leases, 'election'));
		say(ui.attention, needs_look ? `${needs_look} need${needs_look === 1 ? 's' : ''} a look` : '');
		document.title = `${isElection() ? nameOf(one.election) : 'tenure'} · ${location.host}`;
	}
	const wait = live.nextTry - Date.now();
	const next = wait < 0 ? 'Trying now.' : `Next try in ${duration(wait + 999)}.`;
	say(ui.downText, `Not connected. This is what the store said ${duration(Date.now() - store.heard)} ago. ${next}`);
}

setInterval(() => {
	if (document.hidden) return;
	if (me && live.connection === 'live') {
		table.tick();
		if (isElection()) one.tick();
		if (Date.now() - store.heard > SILENCE_MS) stream.lost();
	}
	requestAnimationFrame(paint);
}, 250);

say(ui.store, location.host);
for (const at of document.querySelectorAll('.origin')) say(at, location.origin);
start();

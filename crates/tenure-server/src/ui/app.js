// The page: signing in, its parts by the address, the connection, keys and settings.

import { Refusal, SESSION, ask, isOperator, keepSession, mayChange, nameOf, post, session, store } from './api.js';
import * as actions from './actions.js';
import { announce, clock, duration, find, many, on, setText, setting, ui } from './dom.js';
import * as one from './election.js';
import * as stream from './live.js';
import * as table from './overview.js';

/** @import { Kind, Me, SignedOut } from './types' */

const PAINT_MS = 250;
/** The page asks at least every 5 s. Without an answer for this long, the connection is lost. */
const SILENCE_MS = 7000;
const { live } = stream;
const { body } = document;
const loadedAt = Date.now();
const isLocal = /^(localhost|.+\.localhost|127\..+|\[::1\])$/.test(location.hostname);

let me = /** @type {Me | null} */ (null);
let wasDown = false;
/** The election that was open last: its row gets the focus again. */
let lastOpened = '';
const isElection = () => body.dataset.view === 'election';

// Signing in

async function start() {
	const code = new URLSearchParams(location.hash.slice(1)).get('code');
	try {
		if (code !== null) {
			// The code must not stay in the history, whatever becomes of the request.
			history.replaceState(null, '', location.pathname);
			keepSession(await post('v1/session', { code }));
		}
		me = await ask('v1/whoami');
	} catch (error) {
		if (error instanceof Refusal && code !== null) return signOut('code');
		if (error instanceof Refusal && error.status === 401) return failed(error);
		waiting(error);
		return setTimeout(start, 2000);
	}
	showMe(/** @type {Me} */ (me));
	navigate();
	stream.open();
}

/** Shows that the store does not answer, if it takes long. @param {unknown} [error] */
function waiting(error) {
	const isLong = Date.now() - loadedAt > 3000;
	table.message('waiting', isLong ? 'Waiting for the store' : '', error instanceof Refusal ? error.message : '');
}

/** @type {Record<SignedOut, [title: string, why: string]>} */
const REASONS = {
	none: ['Sign in', 'This store shows its elections only to people who may read them.'],
	'signed-out': ['You are signed out', 'This browser has no session any more.'],
	expired: ['Your session has ended', 'A session lasts 12 hours at most.'],
	restarted: ['Sign in again', 'The store was restarted, or your access was changed. Both end all sessions.'],
	code: ['This address does not work any more', 'Its code works once, for a minute.'],
};

/** @param {SignedOut} reason */
function signOut(reason) {
	me = null;
	keepSession(null);
	stream.close();
	one.close();
	document.querySelectorAll('dialog').forEach((dialog) => dialog.close());
	const [title, why] = REASONS[reason];
	ui.signin.dataset.reason = reason;
	setText(ui.signinTitle, title);
	setText(ui.signinWhy, why);
	setText(ui.signinError, '');
	ui.signinPlain.hidden = location.protocol === 'https:' || isLocal;
	ui.menuButton.hidden = ui.bannerOpen.hidden = ui.bannerDown.hidden = true;
	show('signin');
	announce(title);
	ui.token.focus();
}

on(ui.signinForm, 'submit', async (event) => {
	event.preventDefault();
	ui.signinSubmit.disabled = true;
	setText(ui.signinError, '');
	try {
		keepSession(await post('v1/session', {}, ui.token.value.trim()));
		ui.token.value = '';
		await start();
	} catch (error) {
		const isWrong = error instanceof Refusal && error.status === 401;
		setText(ui.signinError, isWrong ? 'The store does not accept this token: it is mistyped, unknown or revoked, or has ended.'
			: error instanceof Refusal ? error.message : 'The store did not answer.');
	}
	ui.signinSubmit.disabled = false;
});

on(ui.signOut, 'click', () => {
	ui.menu.hidePopover();
	signOut('signed-out');
});

/** @param {Me} of */
function showMe({ kind, principal, grants, expires }) {
	const isOpen = kind === 'anyone';
	const mayChangeAny = isOpen || grants.some(({ role }) => isOperator(role));
	const rights = grants.map(({ role, namespace, prefix }) =>
		`${role} ${namespace === '*' ? 'everywhere' : `in ${namespace}`}${prefix ? ` for ${prefix}…` : ''}`);
	body.dataset.mode = isOpen ? 'open' : 'signed-in';
	body.dataset.mayChange = String(mayChangeAny);
	ui.menuButton.hidden = false;
	for (const at of [find(ui.menuButton, 'bdi'), ui.menuWho]) setText(at, principal ?? 'anyone');
	setText(ui.menuRights, `Rights: ${isOpen ? 'everything' : rights.join(', ') || 'none'}.${mayChangeAny ? ''
		: ' To break and to hand over needs the role operator, so the page does not show these actions.'}`);
	const until = session()?.expires_at ?? expires;
	setText(ui.menuSession, until && !isOpen ? `Signed in until ${clock(Date.parse(until))}.` : '');
	ui.signOut.hidden = isOpen || !session();
	ui.bannerOpen.hidden = !isOpen;
	setText(ui.bannerOpen, `This store has no access control: anybody ${isLocal ? 'on this machine'
		: 'who can reach it'} may change everything.`);
}

/** Handles a failed request. @param {unknown} error */
function failed(error) {
	if (!(error instanceof Refusal) || error.status >= 500 || error.status === 429) return stream.lost();
	if (error.status !== 401) return table.message('refused', 'The store refuses this', error.message);
	const kept = session();
	signOut(!kept ? 'none' : Date.parse(kept.expires_at) <= Date.now() ? 'expired' : 'restarted');
}

// The connection

live.onChange = (event, data) => {
	if (event === 'reset') return refresh();
	table.change(event, data);
	if (isElection()) one.change(event, data);
};

live.onConnection = () => {
	const { connection } = live;
	const isDown = connection === 'down';
	body.dataset.connection = connection;
	setText(find(ui.connection, '.word'), isDown ? 'not connected' : connection);
	ui.bannerDown.hidden = !isDown || !me;
	ui.break.disabled = ui.handOver.disabled = connection !== 'live' || !one.election.view?.holder;
	actions.check();
	if (connection === 'connecting' || wasDown === isDown) return;
	wasDown = isDown;
	table.overview.isBack = !isDown;
	announce(isDown ? 'Not connected to the store' : 'Connected again');
	if (!isDown) refresh();
};

live.onRefusal = table.overview.onError = one.election.onError = failed;
on(ui.tryNow, 'click', stream.open);
on(window, 'offline', stream.lost);
on(window, 'online', () => me && stream.open());
on(window, 'storage', ({ key }) => key === SESSION && start());
on(document, 'visibilitychange', () => {
	if (!me) return;
	if (document.hidden) return stream.close();
	refresh();
	stream.open();
});

function refresh() {
	table.refresh();
	if (isElection()) one.refresh();
}

// The parts of the page

/** @param {string} view */
function show(view) {
	body.dataset.view = view;
	for (const at of document.querySelectorAll('section')) at.hidden = at.id !== view;
}

/** Shows what the address names: an election, or the overview with its filter. */
function navigate() {
	if (!me) return;
	const [path = '', query] = location.hash.slice(2).split('?');
	const [namespace, lease] = path.split('/').map((part) => decodeURIComponent(part.replace(/%(?![\da-f]{2})/gi, '%25')));
	const isBack = isElection();
	if (namespace && lease) {
		lastOpened = nameOf({ namespace, lease });
		ui.back.href = table.hash();
		ui.break.hidden = ui.handOver.hidden = !mayChange(me, { namespace, lease });
		show('election');
		one.open(namespace, lease);
		return ui.electionTitle.focus();
	}
	one.close();
	table.setFilter(new URLSearchParams(query));
	show('overview');
	table.refresh();
	if (isBack) table.focus(lastOpened);
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

/** Opens the dialog for the election on the page, or for the one in focus. @param {Kind} kind */
function act(kind) {
	const of = isElection() ? one.election : table.focused();
	if (me && of && live.connection === 'live' && mayChange(me, of)) actions.open(kind, of, refresh).catch(failed);
}

on(ui.break, 'click', () => act('break'));
on(ui.handOver, 'click', () => act('handover'));

// Keys

/** @type {Record<string, () => void>} */
const KEYS = {
	'?': () => ui.help.showModal(), b: () => act('break'), h: () => act('handover'), '/': () => ui.filter.focus(),
	j: () => move(1), ArrowDown: () => move(1), k: () => move(-1), ArrowUp: () => move(-1),
};

on(document, 'keydown', (event) => {
	const { key, target } = event;
	const isElsewhere = !me || document.querySelector('dialog[open], :popover-open');
	if (isElsewhere || event.ctrlKey || event.metaKey || event.altKey) return;
	if (key === 'Escape') {
		ui.filter.blur();
		if (isElection()) location.hash = table.hash();
	}
	const isTyping = target instanceof Element && target.matches('input, select');
	if (!KEYS[key] || (isTyping && !(target === ui.filter && key === 'ArrowDown'))) return;
	if (isElection() && !'?bh'.includes(key)) return;
	event.preventDefault();
	KEYS[key]();
});

/** Moves the focus to the next row. @param {number} by */
function move(by) {
	const links = [...ui.rows.querySelectorAll('a')];
	const at = links.findIndex((link) => link === document.activeElement) + by;
	links[Math.min(Math.max(at, 0), links.length - 1)]?.focus();
}

on(ui.helpButton, 'click', () => ui.help.showModal());
on(ui.helpClose, 'click', () => ui.help.close());
on(ui.skip, 'click', (event) => {
	event.preventDefault();
	ui.main.focus();
});

// Settings

for (const name of /** @type {const} */ (['theme', 'times'])) {
	const apply = () => (document.documentElement.dataset[name] = ui[name].value);
	ui[name].value = setting(name) ?? ui[name].value;
	apply();
	ui[name].addEventListener('change', () => {
		localStorage.setItem(`tenure.${name}`, ui[name].value);
		apply();
		if (me) refresh();
	});
}

// Painting, four times a second

function paint() {
	const { answer } = table.overview;
	(isElection() ? one : table).paint(live.connection === 'live');
	if (answer && me) {
		const words = `${answer.needs_look} ${answer.needs_look === 1 ? 'needs' : 'need'} a look`;
		setText(ui.total, many(answer.leases, 'election'));
		setText(ui.attention, answer.needs_look ? words : '');
		document.title = `${isElection() ? lastOpened : ui.attention.textContent || 'tenure'} · ${location.host}`;
	}
	if (live.connection !== 'down') return;
	const seconds = Math.max(0, Math.ceil((live.nextTry - Date.now()) / 1000));
	setText(ui.downText, `Not connected. This is what the store said ${duration(Date.now() - store.heard)} ago. ${
		live.isTrying ? 'Trying now.' : `Next try in ${seconds} s.`}`);
}

setInterval(() => {
	if (document.hidden) return;
	if (!table.overview.answer) waiting();
	if (me && live.connection === 'live') {
		table.tick();
		if (isElection()) one.tick();
		if (Date.now() - store.heard > SILENCE_MS) stream.lost();
	}
	requestAnimationFrame(paint);
}, PAINT_MS);

setText(ui.store, location.host);
start();

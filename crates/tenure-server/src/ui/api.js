// Requests to the store, its clock, the session.

/** A proxy may serve the store under a prefix. */
const BASE = new URL('../', import.meta.url);
const PATIENCE_MS = 5000;
export const SESSION = 'tenure.session';

export class Refusal extends Error {
	constructor(status = 0, detail = '') {
		super(detail);
		this.status = status;
	}
}

/** How far the store's clock is ahead, when the store was last heard, what handles failures. */
export const store = { ahead: 0, heard: 0, failed: (/** @type {unknown} */ _error) => {} };

export const now = () => Date.now() + store.ahead;

/** @returns {Session | null} */
export const session = () => JSON.parse(localStorage.getItem(SESSION) ?? 'null');

/** @param {Session | null} next */
export function keepSession(next) {
	if (next) localStorage.setItem(SESSION, JSON.stringify(next));
	else localStorage.removeItem(SESSION);
}

// The credential goes into a header only, never into an address or a cookie.
/** @param {string} path @param {RequestInit} options */
export async function send(path, options, token = session()?.session) {
	const headers = new Headers(options.headers);
	if (token) headers.set('Authorization', `Bearer ${token}`);
	const response = await fetch(new URL(path, BASE), {
		...options, headers, cache: 'no-store', credentials: 'omit', redirect: 'error',
	});
	store.heard = Date.now();
	if (response.ok) return response;
	// An answer of something in between, such as a proxy, has no detail.
	const { detail = `The answer was ${response.status}.` } = await response.json().catch(() => ({}));
	throw new Refusal(response.status, detail);
}

/** @param {AbortSignal} [signal] @returns {Promise<any>} */
export async function ask(path = '', signal) {
	const signals = [AbortSignal.timeout(PATIENCE_MS), ...(signal ? [signal] : [])];
	return (await send(path, { signal: AbortSignal.any(signals) })).json();
}

/** @param {string} path @param {object} body @param {string} [token] @returns {Promise<any>} */
export async function post(path, body, token) {
	const headers = { 'Content-Type': 'application/json' };
	const signal = AbortSignal.timeout(PATIENCE_MS);
	return (await send(path, { method: 'POST', headers, signal, body: JSON.stringify(body) }, token)).json();
}

/** @param {Id} of */
export const pathOf = ({ namespace, lease }) =>
	`v1/namespaces/${encodeURIComponent(namespace)}/leases/${encodeURIComponent(lease)}`;

/** @param {Id} of */
export const nameOf = ({ namespace, lease }) => `${namespace}/${lease}`;

export const isOperator = (role = '') => role === 'operator' || role === 'admin';

/** Whether to show the actions; the store decides. @param {Me} me @param {Id} of */
export const mayChange = (me, { namespace, lease }) => me.kind === 'anyone' || me.grants.some((grant) =>
	isOperator(grant.role) && ['*', namespace].includes(grant.namespace) && lease.startsWith(grant.prefix ?? ''));

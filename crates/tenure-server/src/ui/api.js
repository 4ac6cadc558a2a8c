// Requests to the store, its clock, and the session.

/** @import { Id, Me, Session } from './types' */

/** The folder of the page: a proxy may serve the store under a prefix. */
const BASE = new URL('../', import.meta.url);
const PATIENCE_MS = 5000;
export const SESSION = 'tenure.session';

/** A refusal by the store. */
export class Refusal extends Error {
	/** @param {number} status @param {string} detail */
	constructor(status, detail) {
		super(detail);
		this.status = status;
	}
}

/** How far the store's clock is ahead of the browser's, and when the store was last heard. */
export const store = { ahead: 0, heard: 0 };

/** The time of the store's clock. */
export const now = () => Date.now() + store.ahead;

/** @returns {Session | null} */
export const session = () => JSON.parse(localStorage.getItem(SESSION) ?? 'null');

/** @param {Session | null} next */
export function keepSession(next) {
	if (next) localStorage.setItem(SESSION, JSON.stringify(next));
	else localStorage.removeItem(SESSION);
}

/**
 * Sends a request. The credential goes into a header only, never into an address or a cookie.
 * @param {string} path @param {RequestInit} options @param {string} [token] instead of the session
 */
export async function send(path, options, token = session()?.session) {
	const headers = new Headers(options.headers);
	if (token) headers.set('Authorization', `Bearer ${token}`);
	const response = await fetch(new URL(path, BASE), {
		...options, headers, cache: 'no-store', credentials: 'omit', redirect: 'error',
	});
	store.heard = Date.now();
	if (response.ok) return response;
	// An answer of something in between, such as a proxy, has no detail.
	const { detail } = await response.json().catch(() => ({}));
	throw new Refusal(response.status, detail ?? `The answer was ${response.status}.`);
}

/** Reads JSON. @param {string} path @param {AbortSignal} [signal] @returns {Promise<any>} */
export async function ask(path, signal) {
	const patience = AbortSignal.timeout(PATIENCE_MS);
	const response = await send(path, { signal: signal ? AbortSignal.any([signal, patience]) : patience });
	return response.json();
}

/** @param {string} path @param {object} body @param {string} [token] @returns {Promise<any>} */
export async function post(path, body, token) {
	const response = await send(path, {
		method: 'POST',
		headers: { 'Content-Type': 'application/json' },
		body: JSON.stringify(body),
		signal: AbortSignal.timeout(PATIENCE_MS),
	}, token);
	return response.json();
}

/** @param {Id} of */
export const pathOf = ({ namespace, lease }) =>
	`v1/namespaces/${encodeURIComponent(namespace)}/leases/${encodeURIComponent(lease)}`;

/** @param {Id} of */
export const nameOf = ({ namespace, lease }) => `${namespace}/${lease}`;

/** Whether to show the actions of an election. The store decides what is allowed. @param {Me} me @param {Id} of */
export const mayChange = ({ kind, grants }, { namespace, lease }) =>
	kind === 'anyone' || grants.some((grant) => changes(grant.role)
		&& ['*', namespace].includes(grant.namespace) && lease.startsWith(grant.prefix ?? ''));

/** @param {string} role */
export const changes = (role) => role === 'operator' || role === 'admin';

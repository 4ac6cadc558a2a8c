// Requests to the store, the session, and the types of the answers.
//
// The token of a person is never kept: it is exchanged for a session, which ends after some hours
// and which the store can end at any time.

/** @typedef {'leased' | 'breaking' | 'broken' | 'expired' | 'available'} State */
/** @typedef {'nobody_leads' | 'expected' | 'flapping' | 'renewal_late' | 'breaking'} Look */
/** @typedef {number | 'infinite' | null} Duration */
/** @typedef {{namespace: string, lease: string, state: State, holder: string | null,
 *   owner?: string | null, epoch: number | null, duration_ms: Duration,
 *   remaining_ms: number | null, granted_at: string | null, waiters: number}} Common */
/** @typedef {Common & {ended_at?: string | null | undefined, recent_terms: number, look: Look[]}} Row */
/** @typedef {{at: string, age_ms: number, leases: number, matching: number, needs_look: number,
 *   states: Record<string, number>, elections: Row[], too_many: boolean}} Overview */
/** @typedef {Common & {metadata: Record<string, string> | null, revision: number}} View */
/** @typedef {View & {reason?: string}} Change the data of an event */
/** @typedef {{epoch: number, holder: string, owner?: string | null, began_at: string | null,
 *   ended_at: string | null, end: string | null, reason: string | null}} Term */
/** @typedef {{position: number, holder: string, owner?: string | null, priority: number,
 *   waiting_since: string | null, waiting_ms: number}} Waiter */
/** @typedef {{role: string, namespace: string, prefix?: string}} Grant */
/** @typedef {{principal: string | null, kind: string, expires: string | null,
 *   grants: Grant[]}} Me */
/** @typedef {{session: string, principal: string | null, expires_at: string}} Session */

/** The folder of the page: the store may be behind a proxy, under a prefix of the path. */
const BASE = new URL('../', import.meta.url);

/** A request without an answer for this long has failed. */
const PATIENCE_MS = 5000;

export const SESSION = 'tenure.session';

/** A refusal by the store. */
export class Refusal extends Error {
  /**
   * @param {number} status
   * @param {string} code
   * @param {string} detail
   */
  constructor(status, code, detail) {
    super(detail);
    this.status = status;
    this.code = code;
  }
}

/** How far the store's clock is ahead of this machine's, in milliseconds. */
let clockAhead = 0;

/** When the last bytes came from the store, by this machine's clock. */
export let lastWord = 0;

/** Records that the store is there. */
export function heard() {
  lastWord = Date.now();
}

/**
 * Sets the store's clock by the time in an answer.
 * @param {string} at
 */
export function setClock(at) {
  const time = Date.parse(at);
  if (!Number.isNaN(time)) clockAhead = time - Date.now();
}

/** The time of the store's clock, in milliseconds. */
export function now() {
  return Date.now() + clockAhead;
}

/** @type {Session | null} */
let memory = null;

/** @returns {Session | null} */
export function session() {
  try {
    const kept = JSON.parse(localStorage.getItem(SESSION) ?? 'null');
    return typeof kept?.session === 'string' ? kept : null;
  } catch {
    return memory;
  }
}

/** @param {Session | null} next */
export function keepSession(next) {
  memory = next;
  try {
    if (next) localStorage.setItem(SESSION, JSON.stringify(next));
    else localStorage.removeItem(SESSION);
  } catch {
    // The browser allows no storage: the session ends with the page.
  }
}

/**
 * The address and the headers of a request.
 * @param {string} path
 * @param {string} [token] instead of the session
 */
export function target(path, token) {
  const headers = new Headers();
  const bearer = token ?? session()?.session;
  if (bearer) headers.set('Authorization', `Bearer ${bearer}`);
  return { url: new URL(path, BASE), headers };
}

/**
 * Sends a request and returns the answer's JSON. A refusal throws a `Refusal`; without an answer
 * another error is thrown.
 * @param {string} path
 * @param {{method?: string, body?: unknown, token?: string, signal?: AbortSignal}} [options]
 * @returns {Promise<any>}
 */
export async function ask(path, { method = 'GET', body, token, signal } = {}) {
  const { url, headers } = target(path, token);
  headers.set('Accept', 'application/json');
  if (body !== undefined) headers.set('Content-Type', 'application/json');
  const patience = AbortSignal.timeout(PATIENCE_MS);
  const response = await fetch(url, {
    method,
    headers,
    body: body === undefined ? null : JSON.stringify(body),
    signal: signal ? AbortSignal.any([signal, patience]) : patience,
    cache: 'no-store',
    credentials: 'omit',
    redirect: 'error',
  });
  heard();
  if (!response.ok) throw await refusal(response);
  return response.status === 204 ? null : await response.json();
}

/**
 * Reads a problem. An answer of something else, such as a proxy, has none.
 * @param {Response} response
 */
export async function refusal(response) {
  const problem = await response.json().catch(() => ({}));
  const detail = problem.detail ?? `the answer was ${response.status} ${response.statusText}`;
  return new Refusal(response.status, problem.code ?? '', detail);
}

/** The path of a lease. @param {string} namespace @param {string} lease */
export function leasePath(namespace, lease) {
  return `v1/namespaces/${encodeURIComponent(namespace)}/leases/${encodeURIComponent(lease)}`;
}

/**
 * Whether the caller may break and hand over a lease, as far as its grants say. The page shows
 * actions by this; the store decides.
 * @param {Me} me
 * @param {string} namespace
 * @param {string} lease
 */
export function mayChange(me, namespace, lease) {
  return me.kind === 'anyone' || me.grants.some((grant) =>
    ['operator', 'admin'].includes(grant.role) &&
    (grant.namespace === '*' || grant.namespace === namespace) &&
    lease.startsWith(grant.prefix ?? ''));
}

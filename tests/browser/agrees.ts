// Checks that the answers of the API are those that the page's scripts expect (`types.d.ts`). The
// compiler reads this file; nothing runs it. The page may expect less than the API says.

/// <reference path="types.d.ts" />

import type { paths } from './openapi.js';

type Answers = { responses: { 200: { content: { 'application/json': unknown } } } };
type Body<Operation extends Answers> = Operation['responses'][200]['content']['application/json'];

/** Is an error unless the page accepts every answer of the API. */
type Accepts<Page, Answer extends Page> = [Page, Answer];

type Namespaces = { namespaces: { namespace: string; leases: number }[] };
type OneLease = '/v1/namespaces/{namespace}/leases/{lease}';

export type Checked = [
  Accepts<View, Body<paths[OneLease]['get']>>,
  Accepts<View, Body<paths[`${OneLease}/break`]['post']>>,
  Accepts<View, Body<paths[`${OneLease}/handover`]['post']>>,
  Accepts<{ terms: Term[] }, Body<paths[`${OneLease}/history`]['get']>>,
  Accepts<{ waiters: Waiter[] }, Body<paths[`${OneLease}/waiters`]['get']>>,
  Accepts<Overview, Body<paths['/v1/overview']['get']>>,
  Accepts<Namespaces, Body<paths['/v1/namespaces']['get']>>,
  Accepts<Me, Body<paths['/v1/whoami']['get']>>,
  Accepts<Session, Body<paths['/v1/session']['post']>>,
];

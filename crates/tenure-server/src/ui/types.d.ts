// Types for the check of the scripts with `tsc`. This file is not served.

export type State = 'leased' | 'breaking' | 'broken' | 'expired' | 'available';
export type Look = 'nobody_leads' | 'expected' | 'flapping' | 'renewal_late' | 'breaking';
export type Kind = 'break' | 'handover';
export type SignedOut = 'none' | 'signed-out' | 'expired' | 'restarted' | 'code';

/** The stream: its state, when the page tries again, and whether it tries just now. */
export interface Live {
  connection: 'connecting' | 'live' | 'down';
  nextTry: number;
  isTrying: boolean;
  onChange: (event: string, data: any) => void;
  onConnection: () => void;
  onRefusal: (refusal: unknown) => void;
}

export interface Id {
  namespace: string;
  lease: string;
}

/** What a row of the overview and the view of a lease have in common. */
export interface Lease {
  namespace: string;
  lease: string;
  state: State;
  holder: string | null;
  owner?: string | null;
  epoch: number | null;
  duration_ms: number | 'infinite' | null;
  remaining_ms: number | null;
  granted_at: string | null;
  waiters: number;
  ended_at?: string | null;
  recent_terms?: number;
  look?: Look[];
}

export interface Row extends Lease {
  ended_at: string | null;
  recent_terms: number;
  look: Look[];
}

export interface Overview {
  at: string | null;
  age_ms: number;
  leases: number;
  matching: number;
  needs_look: number;
  states: Record<State, number>;
  elections: Row[];
  too_many: boolean;
}

export interface View extends Lease {
  metadata: Record<string, string> | null;
  revision: number;
}

export interface Term {
  epoch: number;
  holder: string;
  began_at: string | null;
  ended_at: string | null;
  end: string | null;
  reason: string | null;
}

export interface Waiter {
  position: number;
  holder: string;
  priority: number;
  waiting_since: string | null;
  waiting_ms: number;
}

export interface Grant {
  role: string;
  namespace: string;
  prefix?: string;
}

export interface Me {
  principal: string | null;
  kind: string;
  expires: string | null;
  grants: Grant[];
}

export interface Session {
  session: string;
  expires_at: string;
}

export interface Span {
  from: number;
  to: number;
}

/** A row of the table. */
export interface Entry {
  row: Row;
  /** When the store said so, by its clock. */
  at: number;
  tr: HTMLElement;
}

/** The ids of elements without properties of their own. */
export type PlainId =
  | 'actionCancel' | 'actionEffect' | 'actionError' | 'actionTitle' | 'announcer' | 'attention'
  | 'bannerDown' | 'bannerOpen' | 'clearFilter' | 'confirmName' | 'connection' | 'copyEpoch' |
  'downText' | 'election' | 'electionBody' | 'electionLeft' | 'electionMeter' |
  'electionProblem' | 'electionTitle' | 'elections' | 'epoch' | 'facts' | 'gaps' | 'helpButton'
  | 'helpClose' | 'helpTitle' | 'leader' | 'leaderSince' | 'main' | 'menu' | 'menuButton' |
  'menuRights' | 'menuSession' | 'menuWho' | 'messageCommands' | 'messageText' | 'messageTitle'
  | 'metadata' | 'namespaces' | 'overview' | 'overviewMessage' | 'overviewTitle' | 'owner' |
  'periodWarning' | 'rows' | 'shown' | 'signOut' | 'signin' | 'signinError' | 'signinPlain' |
  'signinTitle' | 'signinWhy' | 'skeleton' | 'skip' | 'store' | 'targetList' | 'targets' |
  'terms' | 'termsNote' | 'timeline' | 'toast' | 'total' | 'tryNow' | 'waiters' | 'waitersNone';

/** The elements with an id. */
export interface Ui extends Record<PlainId, HTMLElement> {
  filters: HTMLFormElement;
  filter: HTMLInputElement;
  namespace: HTMLSelectElement;
  show: HTMLSelectElement;
  range: HTMLSelectElement;
  times: HTMLSelectElement;
  theme: HTMLSelectElement;
  row: HTMLTemplateElement;
  back: HTMLAnchorElement;
  token: HTMLInputElement;
  signinForm: HTMLFormElement;
  signinSubmit: HTMLButtonElement;
  handOver: HTMLButtonElement;
  break: HTMLButtonElement;
  action: HTMLDialogElement;
  actionForm: HTMLFormElement;
  actionSubmit: HTMLButtonElement;
  reason: HTMLInputElement;
  confirm: HTMLInputElement;
  lessTime: HTMLDetailsElement;
  period: HTMLInputElement;
  help: HTMLDialogElement;
}

// Types for the check of the scripts with `tsc`. They are global. This file is not served.

type State = 'leased' | 'breaking' | 'broken' | 'expired' | 'available';
type Look = 'nobody_leads' | 'expected' | 'flapping' | 'renewal_late' | 'breaking';
type Child = Node | string;
type Attributes = Record<string, string | number>;
/** Writes a time in words. */
type Words = (ms: number) => string;
type Kind = 'break' | 'handover';
type SignedOut = 'none' | 'signed-out' | 'expired' | 'restarted' | 'code';

/** The stream: its state, when the page tries again. */
interface Live {
  connection: 'connecting' | 'live' | 'down';
  nextTry: number;
  onChange: (event: string, data: any) => void;
  onConnection: () => void;
}

interface Id {
  namespace: string;
  lease: string;
}

/** What a row of the overview and the view of a lease have in common. */
interface Lease {
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

interface Row extends Lease {
  ended_at: string | null;
  recent_terms: number;
  look: Look[];
}

interface Overview {
  at: string | null;
  age_ms: number;
  leases: number;
  matching: number;
  needs_look: number;
  states: Record<State, number>;
  elections: Row[];
  too_many: boolean;
}

interface View extends Lease {
  lock_delay_remaining_ms?: number;
  reserved_for?: string;
  reserved_remaining_ms?: number;
  metadata: Record<string, string> | null;
  revision: number;
}

interface Term {
  epoch: number;
  holder: string;
  began_at: string | null;
  ended_at: string | null;
  end: string | null;
  reason: string | null;
}

interface Waiter {
  position: number;
  holder: string;
  priority: number;
  waiting_since: string | null;
  waiting_ms: number;
}

interface Grant {
  role: string;
  namespace: string;
  prefix?: string;
}

interface Me {
  principal: string | null;
  kind: string;
  grants: Grant[];
}

interface Session {
  session: string;
  expires_at: string;
}

interface Span {
  from: number;
  to: number;
}

/** A row of the table. */
interface Entry {
  row: Row;
  /** When the store said so, by its clock. */
  at: number;
  tr: HTMLElement;
}

/** The ids of elements without properties of their own. */
type PlainId =
  | 'actionCancel' | 'actionEffect' | 'actionError' | 'actionTitle' | 'announcer' | 'attention'
  | 'bannerDown' | 'bannerOpen' | 'clearFilter' | 'confirmName' | 'connection' | 'copyEpoch' |
  'downText' | 'election' | 'electionBody' | 'electionLeft' | 'electionMeter' |
  'electionProblem' | 'electionTitle' | 'elections' | 'epoch' | 'facts' | 'gaps' | 'helpButton'
  | 'helpClose' | 'helpTitle' | 'leader' | 'leaderSince' | 'menu' | 'menuButton' |
  'menuRights' | 'messageCommands' | 'messageText' | 'messageTitle'
  | 'metadata' | 'namespaces' | 'overview' | 'overviewMessage' | 'overviewTitle' | 'owner' |
  'periodWarning' | 'replaceKeep' | 'replaceSubmit' | 'replaceText' |
  'replaceTitle' | 'rows' | 'shown' | 'signOut' | 'signin' | 'signinError' | 'signinPlain' |
  'signinTitle' | 'signinWhy' | 'skeleton' | 'store' | 'targetList' | 'targets' |
  'terms' | 'termsNote' | 'timeline' | 'toast' | 'total' | 'tryNow' | 'waiters' | 'waitersNone';

/** The elements with an id. */
interface Ui extends Record<PlainId, HTMLElement> {
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
  replace: HTMLDialogElement;
}

// The page of a group: asks this member for the reports of all members, every second while the page
// is visible, and shows them. All data are shown as text; nothing is parsed as HTML.

/**
 * @typedef {{role: string, leader: number | null, epoch: number | null, quorum: boolean | null,
 *   suspects: number[], incarnation: number, strategy: string,
 *   counters: {answered: number, failed: number, refused: Record<string, number>}}} View
 * @typedef {{node: number, priority: number, url: string | null, view: View | null, error: string | null}} Member
 * @typedef {{cluster: string, asked_by: number, leader: number | null, epoch: number | null,
 *   members: Member[]}} Group
 */

/** The interval between two requests, in milliseconds. */
const INTERVAL = 1000;
/** After this time without an answer, in milliseconds, the page says that it is not connected. */
const PATIENCE = 3500;

/** @param {string} id */
const element = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** The time of the last answer. */
let answered = performance.now();

/**
 * Sets the text of an element, and touches the document only if the text differs.
 * @param {HTMLElement} target
 * @param {string} text
 */
function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

/** @param {number} count */
const members = (count) => (count === 1 ? "1 member" : `${count} members`);

/**
 * Shows whether the members agree on a leader.
 * @param {Group} group
 */
function showAgreement(group) {
  const silent = group.members.filter((member) => member.view === null).length;
  const leading = group.members.filter((member) => member.view?.role === "leading");
  const answers = `${group.members.length - silent} of ${members(group.members.length)} answer`;
  const section = element("agreement");
  let state = "wrong";
  if (group.leader !== null) {
    state = silent === 0 ? "good" : "partly";
    setText(element("leader"), `Member ${group.leader} leads`);
    setText(element("detail"), `Epoch ${group.epoch}. ${answers}, and they agree.`);
  } else if (leading.length > 1) {
    const nodes = leading.map((member) => member.node).join(" and ");
    setText(element("leader"), `Members ${nodes} report that they lead`);
    setText(
      element("detail"),
      `${answers}. The reports are not from the same instant; if this stays, look at the clocks and the settings.`,
    );
  } else {
    setText(element("leader"), "The members do not agree on a leader");
    setText(element("detail"), `${answers}. An election may be in progress.`);
  }
  section.dataset.state = state;
}

/**
 * Returns the cells of a member, as pairs of a column's name and a text.
 * @param {Member} member
 * @returns {[string, string][]}
 */
function cells(member) {
  const view = member.view;
  if (view === null) return [["Role", member.error ?? "no answer"]];
  const majority = view.quorum === null ? "not needed" : view.quorum ? "yes" : "no";
  const counters = view.counters;
  return [
    ["Role", view.role],
    ["Leader", view.leader === null ? "–" : `member ${view.leader}`],
    ["Epoch", view.epoch === null ? "–" : String(view.epoch)],
    ["Majority", majority],
    ["Suspects", view.suspects.length === 0 ? "–" : view.suspects.join(", ")],
    ["Answered, failed", `${counters.answered}, ${counters.failed}`],
    ["Starts", String(view.incarnation)],
  ];
}

/**
 * Returns the state of a member's row, which decides its mark.
 * @param {Member} member
 * @param {Group} group
 */
function rowState(member, group) {
  if (member.view === null) return "silent";
  if (member.view.role === "leading") return "leading";
  return group.leader !== null && member.view.leader === group.leader ? "following" : "undecided";
}

/**
 * @param {Member} member
 * @param {Group} group
 */
function showRow(member, group) {
  const body = /** @type {HTMLTableSectionElement} */ (document.querySelector("#members tbody"));
  const id = `member-${member.node}`;
  const texts = cells(member);
  let row = /** @type {HTMLTableRowElement | null} */ (document.getElementById(id));
  if (row === null) {
    row = body.insertRow();
    row.id = id;
    const head = document.createElement("th");
    head.scope = "row";
    const link = document.createElement("span");
    const address = document.createElement("small");
    head.append(link, address);
    row.append(head);
  }
  row.dataset.state = rowState(member, group);
  const [link, address] = /** @type {HTMLElement[]} */ ([...row.cells[0].children]);
  setText(link, `${member.node}`);
  setText(address, member.url ?? "no address here");
  while (row.cells.length > texts.length + 1) row.deleteCell(-1);
  while (row.cells.length < texts.length + 1) row.insertCell();
  texts.forEach(([name, text], index) => {
    const cell = /** @type {HTMLTableRowElement} */ (row).cells[index + 1];
    cell.dataset.name = name;
    cell.colSpan = texts.length === 1 ? 7 : 1;
    setText(cell, text);
  });
}

/** @param {Group} group */
function show(group) {
  setText(element("cluster"), group.cluster);
  setText(element("asked-by"), `member ${group.asked_by}`);
  document.title = `${group.leader === null ? "no leader" : `member ${group.leader} leads`} · ${group.cluster} · tenure`;
  showAgreement(group);
  for (const member of group.members) showRow(member, group);
}

/** @param {boolean} isLive */
function showConnection(isLive) {
  const live = element("live");
  live.dataset.state = isLive ? "live" : "lost";
  setText(live, isLive ? "live" : "not connected");
  document.body.classList.toggle("stale", !isLive);
  const banner = element("banner");
  banner.hidden = isLive;
  const seconds = Math.round((performance.now() - answered) / 1000);
  if (!isLive) {
    setText(
      banner,
      `This member has not answered for ${seconds} s. The table shows its last answer. The page tries again every second.`,
    );
  }
}

async function refresh() {
  try {
    const response = await fetch("members", {
      cache: "no-store",
      signal: AbortSignal.timeout(PATIENCE),
    });
    if (!response.ok) throw new Error(`status ${response.status}`);
    show(await response.json());
    answered = performance.now();
  } catch {
    // The connection's state is shown below.
  }
  showConnection(performance.now() - answered < PATIENCE);
}

let isRunning = false;

/** Asks until the page is hidden. */
async function run() {
  if (isRunning) return;
  isRunning = true;
  while (!document.hidden) {
    await refresh();
    await new Promise((done) => setTimeout(done, INTERVAL));
  }
  isRunning = false;
}

document.addEventListener("visibilitychange", run);
run();

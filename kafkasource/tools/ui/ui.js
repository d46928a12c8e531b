"use strict";
/* The address says what is shown: #view=topic&name=orders&... Each view is a function from its parameters to nodes. */
const state = () => new URLSearchParams(location.hash.slice(1));
const link = (parameters, ...children) => make("a", {href: "#" + new URLSearchParams(parameters)}, ...children);
const go = parameters => { location.hash = "#" + new URLSearchParams(parameters); };

async function get(path, parameters = {}) {
  const answer = await fetch(path + "?" + new URLSearchParams(parameters), {headers: authorized()});
  if (!answer.ok) throw Object.assign(new Error((await answer.text()).trim()), {status: answer.status});
  return answer.json();
}

async function post(path, document) {
  const answer = await fetch(path, {method: "POST", headers: {...authorized(), "Content-Type": "application/json"}, body: JSON.stringify(document)});
  if (!answer.ok) throw Object.assign(new Error((await answer.text()).trim()), {status: answer.status});
  return answer.json();
}

/* Ask before a change: true if the user agrees. With `name` they must write it. */
function agreed(question, action, name = null) {
  return new Promise(resolve => {
    const dialog = make("dialog", {"aria-label": action}), typed = input("typed", ""), yes = make("button", {class: name === null ? "main" : "danger"}, action);
    yes.disabled = name !== null;
    typed.addEventListener("input", () => { yes.disabled = typed.value !== name; });
    let answer = false;
    const body = form(() => { answer = true; dialog.close(); }, ...(name === null ? [] : [field("Write its name to confirm", typed, "grow")]), yes, button("Cancel", () => dialog.close()));
    dialog.append(make("p", {}, question), body);
    dialog.addEventListener("close", () => { dialog.remove(); resolve(answer); });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/* Do a change, then say what was done, or why not, in `said`. */
async function change(said, act) {
  try { said.className = "good"; said.textContent = await act() ?? ""; }
  catch (error) { said.className = "error"; said.textContent = visible(error.message); }
}

const tile = (name, text, label) => make("div", {class: "tile"}, make("b", {"data-field": name}, text), make("span", {}, label));
const card = (...children) => make("section", {class: "card"}, ...children);
const quiet = text => make("p", {class: "soft"}, text);
const sizeText = bytes => bytes === null ? "unknown" : size(bytes);
const whyNoSize = reason => reason === null ? "" : make("p", {class: "soft", id: "size-unknown"}, visible("Size unknown: " + reason));
const healthNode = text => make("span", {class: text === "ok" ? "good health" : "bad health"}, text);
/* Producers may give any time, and a Date ends at 8.64e15 ms. */
const time = ms => ms === null ? "–" : ms > 8.64e15 ? `${ms} ms` : new Date(ms).toISOString().replace("T", " ").replace("Z", "");
const field = (label, input, kind = "") => make("label", {class: kind}, label, input);
const input = (name, value, more = {}) => make("input", {name, value: value ?? "", autocomplete: "off", ...more});
function select(name, options, value) {
  const made = make("select", {name}, ...options.map(([key, text]) => make("option", {value: key}, text)));
  made.value = value ?? options[0][0];
  return made;
}
function form(submit, ...children) {
  const made = make("form", {class: "fields"}, ...children);
  made.addEventListener("submit", event => { event.preventDefault(); submit(new FormData(made)); });
  return made;
}
function button(text, act, kind = "") {
  const made = make("button", {type: "button", class: kind}, text);
  made.addEventListener("click", act);
  return made;
}

const MOST_ROWS = 500;  // of the table of topics: a browser needs seconds for 10,000, at each key that is typed

async function topicsView(parameters) {
  const {topics, size_unknown: noSize} = await get("/api/topics"), box = make("input", {type: "checkbox"});
  const find = input("find", parameters.get("find"), {type: "search", placeholder: "part of a name"}), list = make("div");
  const listed = () => {
    const part = find.value.toLowerCase(), found = topics.filter(one => (box.checked || !one.internal) && one.topic.toLowerCase().includes(part));
    const rows = found.slice(0, MOST_ROWS).map(one => [make("span", {}, link({view: "topic", name: one.topic}, visible(one.topic)), one.internal ? make("span", {class: "tag"}, "internal") : ""),
      full(one.partitions), full(one.replication), full(one.offsets), sizeText(one.bytes), healthNode(one.health)]);
    list.replaceChildren(rows.length ? table("lrrrrl", ["Topic", "Partitions", "Replicas", "Offsets", "Size", "Health"], rows) : quiet(part === "" ? "there is no topic" : "no name of a topic has this part"),
      found.length > MOST_ROWS ? quiet(`and ${full(found.length - MOST_ROWS)} more: find them by a part of their names`) : "");
  };
  const narrowed = () => {  // the address keeps it, for Refresh and for the way back
    listed();
    history.replaceState(null, "", "#" + new URLSearchParams({view: "topics", ...(find.value && {find: find.value}), ...(box.checked && {internal: "yes"})}));
    drawnAt = location.hash;
  };
  box.checked = parameters.get("internal") === "yes";
  box.addEventListener("change", narrowed); find.addEventListener("input", narrowed);
  listed();
  return [card(make("div", {class: "head"}, make("h2", {}, "Topics"), make("span", {class: "soft"}, `${full(topics.filter(one => !one.internal).length)} and ${full(topics.filter(one => one.internal).length)} internal`)),
    form(() => {}, field("Find", find, "grow"), make("label", {class: "check"}, box, "internal topics"), writes ? button("Create a topic…", () => go({view: "create"})) : ""), list, whyNoSize(noSize))];
}

async function topicView(parameters) {
  const name = parameters.get("name"), topic = await get("/api/topic", {name});
  const bodies = {records: recordsTab, partitions: partitionsTab, settings: settingsTab, ...(writes ? {change: changeTab} : {})};
  const tab = Object.hasOwn(bodies, parameters.get("tab")) ? parameters.get("tab") : "records";
  const tabs = make("nav", {"aria-label": "Topic"}, ...Object.keys(bodies).map(each => {
    const made = link({view: "topic", name, tab: each}, each[0].toUpperCase() + each.slice(1));
    if (each === tab) made.setAttribute("aria-current", "page");
    return made;
  }));
  const about = card(make("div", {class: "head"}, make("h2", {}, visible(name)), tabs),
    make("div", {class: "tiles"}, tile("partitions", full(topic.partitions), "partitions"), tile("offsets", full(topic.offsets), "offsets"), tile("size", sizeText(topic.bytes), "size"),
      tile("replication", full(topic.replication), "replicas"), tile("health", healthNode(topic.health), "health")));
  return [about, ...await bodies[tab](topic, parameters)];
}

function partitionsTab(topic) {
  const offsetsOf = one => one.earliest === null ? null : one.latest - one.earliest;
  const rows = topic.logs.map(one => [full(one.partition), one.leader === null ? make("span", {class: "bad"}, "none") : String(one.leader), one.replicas.join(", "),
    make("span", {class: one.in_sync_replicas.length < one.replicas.length ? "bad" : ""}, one.in_sync_replicas.join(", ") || "none"), full(one.earliest), full(one.latest), full(offsetsOf(one)), sizeText(one.bytes)]);
  const made = table("rrllrrrr", ["Partition", "Leader", "Replicas", "In sync", "Earliest", "Latest", "Offsets", "Size"], rows);
  made.classList.add("numbers");
  return [card(made, whyNoSize(topic.size_unknown))];
}

function settingsTab(topic) {
  const rows = topic.settings.map(one => [visible(one.name), one.value ? visible(one.value) : make("span", {class: "null"}, one.value === null ? "not shown" : "empty"), one.source]);
  return [card(rows.length ? table("lll", ["Setting", "Value", "From"], rows) : quiet(topic.settings_unknown === null ? "no settings" : visible(topic.settings_unknown)),
    topic.topic_id === null ? "" : quiet("topic id " + topic.topic_id))];
}

async function recordsTab(topic, parameters) {
  const kept = {view: "topic", name: topic.topic};
  for (const each of ["partitions", "from", "key", "match", "count", "form"]) if (parameters.has(each)) kept[each] = parameters.get(each);
  const shape = select("form", [["auto", "auto"], ["text", "text"], ["json", "JSON"], ["hex", "hex"]], kept.form);
  const filters = form(data => {
    const next = {view: "topic", name: topic.topic};
    for (const [key, value] of data) if (value !== "" && !(key === "match" && data.get("key") === "")) next[key] = value;
    if (state().toString() === new URLSearchParams(next).toString()) refresh(); else go(next);
  }, field("From", input("from", kept.from, {placeholder: "newest", title: "empty: the newest; else earliest, an offset, a time (2026-11-21T22:30, UTC), or how long ago (15m, 2h, 7d)", list: "places"})),
    make("datalist", {id: "places"}, ...["earliest", "15m", "2h", "1d"].map(value => make("option", {value}))),
    field("Partitions", input("partitions", kept.partitions, {placeholder: "all", class: "narrow"})),
    field("Key", input("key", kept.key, {placeholder: "any"}), "grow"), field("Key is", select("match", [["whole", "exactly this"], ["part", "with this part"]], kept.match)),
    field("At most", select("count", [["20", "20"], ["50", "50"], ["100", "100"], ["500", "500"]], kept.count ?? "50")), field("Show as", shape), make("button", {class: "main"}, "Show"));
  const asked = {topic: topic.topic, ...kept};
  for (const each of ["older", "newer"]) if (parameters.has(each)) asked[each] = parameters.get(each);
  for (const each of ["view", "name", "form"]) delete asked[each];
  const found = await get("/api/records", asked).catch(error => { if (error.status === undefined || error.status === 401) throw error; return error; });
  if (found instanceof Error) return [card(filters), make("p", {class: "card error", role: "alert"}, visible(found.message))];
  const list = make("div", {id: "records"}), heads = make("div", {class: "heads"}, ...["Partition : offset", "Time, UTC", "Key", "Value"].map(text => make("span", {}, text)));
  const draw = () => {
    const nodes = found.records.map(one => recordNode(topic.topic, one, shape.value));
    for (const [part, most] of [["place", 40], ["time", 40], ["key", 36]]) list.style.setProperty("--" + part, Math.min(most, widest(nodes, "." + part)) + "ch");
    list.replaceChildren(heads, ...nodes);
  };
  shape.addEventListener("change", draw); draw();
  const places = cursor => Object.entries(cursor).map(([partition, offset]) => partition + ":" + offset).join(",");
  const more = [];
  if (!found.oldest && Object.keys(found.older).length) more.push(button("Older", () => go({...kept, older: places(found.older)})));
  if (Object.keys(found.newer).length) more.push(button("Newer", () => go({...kept, newer: places(found.newer)})));
  const said = (found.records.length === 1 ? "1 record" : `${full(found.records.length)} records`) + ` of ${full(found.examined)} examined` +
    (found.limited ? "; the search stopped at its limit: go on with Older or Newer" : "");
  return [card(filters), card(found.records.length ? list : quiet(kept.from || kept.key || kept.partitions ? "no such records here" : "no records"), make("div", {class: "pager"}, ...more, make("span", {class: "soft", id: "said"}, said)))];
}

/* The most columns of characters; outside ASCII one may take two. */
const widest = (nodes, part) => Math.max(4, ...nodes.map(node => node.querySelector(part).textContent.replace(/[^ -~]/gu, "··").length));

function recordNode(topic, one, form) {
  const node = make("details", {class: "record", "data-place": `${one.partition}:${one.offset}`}, make("summary", {},
    make("span", {class: "place"}, `${one.partition} : ${one.offset}`), make("span", {class: "time"}, time(one.timestamp)),
    make("span", {class: "key"}, preview(one.key, form)), make("span", {class: "value"}, preview(one.value, form))));
  node.addEventListener("toggle", () => { if (node.open && node.children.length === 1) node.append(recordBody(topic, one, form)); });
  return node;
}

function recordBody(topic, one, form) {
  const parts = [["Key", one.key], ["Value", one.value], ...one.headers.map(each => ["Header " + visible(each.key), each.value])];
  const body = make("div", {class: "body"}, ...parts.flatMap(([name, part]) => partNodes(name, part, form)));
  if (one.header_count > one.headers.length) body.append(quiet(`${one.header_count} headers in all`));
  const cut = parts.some(([, part]) => part !== null && isCut(part, bytesOf(part)));
  if (cut && !one.whole) body.append(button("Show it whole (at most 1 MiB of each part)", async () => {
    const {records: [whole]} = await get("/api/records", {topic, partitions: one.partition, from: one.offset, count: 1});
    if (whole?.offset === one.offset) body.replaceWith(recordBody(topic, {...whole, whole: true}, form));
  }));
  return body;
}

function partNodes(name, part, form) {
  if (part === null) return [make("h3", {}, name), make("pre", {class: "null"}, "null")];
  const bytes = bytesOf(part), cut = isCut(part, bytes), made = shown(bytes, cut, form);
  const about = `${name} · ${size(part.size)}` + (cut ? `, the first ${size(bytes.length)} of it` : "");
  return [make("h3", {}, about), make("pre", {class: made.form}, made.text)];
}

function changeTab(topic) {
  const said = make("p", {id: "done", role: "status"}), name = topic.topic;
  const produce = form(data => change(said, async () => {
    const record = {value: data.get("null") ? null : data.get("value")};
    if (data.get("key") !== "") record.key = data.get("key");
    if (data.get("partition") !== "") record.partition = Number(data.get("partition"));
    if (data.get("headers").trim() !== "") record.headers = JSON.parse(data.get("headers"));
    if (!await agreed(`Write this record to ${visible(name)}? It cannot be taken back.`, "Write")) return;
    const {written} = await post("/api/produce", {topic: name, confirm: name, record});
    return written.map(one => `written: partition ${one.partition}, offset ${one.offset ?? "unknown"}`).join("; ");
  }), field("Key (empty: null)", input("key", "")), field("Partition", input("partition", "", {placeholder: "by the key", class: "narrow", inputmode: "numeric", pattern: "[0-9]*"})),
    field("Headers", input("headers", "", {placeholder: '{"name": "text"}'}), "grow"), field("Value", make("textarea", {name: "value", rows: 5}), "whole"),
    make("label", {class: "check"}, make("input", {type: "checkbox", name: "null"}), "null value (a tombstone)"), make("button", {class: "main"}, "Write…"));
  const remove = button("Delete this topic…", () => change(said, async () => {
    if (!await agreed(`Delete ${visible(name)} with ${full(topic.offsets)} offsets of records? Nobody can bring them back.`, "Delete", name)) return;
    await post("/api/topic/delete", {name, confirm: name});
    go({view: "topics"});
  }), "danger");
  return [card(said, make("h2", {}, "Write a record"), produce), topic.internal ? "" : card(make("h2", {}, "Delete"), make("p", {}, remove))];
}

function createView() {
  const said = make("p", {id: "done", role: "status"});
  return [card(make("h2", {}, "Create a topic"), said, form(data => change(said, async () => {
    const name = data.get("name"), asked = {name, confirm: name, settings: {}};
    for (const each of ["partitions", "replication"]) if (data.get(each) !== "") asked[each] = Number(data.get(each));
    for (const line of data.get("settings").split("\n").filter(one => one.trim() !== "")) {
      const at = line.indexOf("=");
      if (at < 1) throw new Error(`${line}: expected name=value`);
      asked.settings[line.slice(0, at).trim()] = line.slice(at + 1).trim();
    }
    if (!await agreed(`Create the topic ${visible(name)}?`, "Create")) return;
    await post("/api/topic/create", asked);
    go({view: "topic", name, tab: "partitions"});
  }), field("Name", input("name", "", {required: ""}), "grow"), field("Partitions", input("partitions", "", {placeholder: "the broker's default", inputmode: "numeric", pattern: "[0-9]*"})),
    field("Replicas", input("replication", "", {placeholder: "the broker's default", inputmode: "numeric", pattern: "[0-9]*"})),
    field("Settings, name=value, one a line", make("textarea", {name: "settings", rows: 3}), "whole"), make("button", {class: "main"}, "Create…")))];
}

function offsetsCard(group, name) {
  const said = make("p", {id: "done", role: "status"});
  if (group.members.length) return card(make("h2", {}, "Set offsets"), quiet("The group has members. End them first: they would commit over it."));
  const topics = [...new Set(group.partitions.map(one => one.topic))];
  return card(make("h2", {}, "Set offsets"), said, form(data => change(said, async () => {
    const topic = data.get("topic"), numbers = data.get("partitions").split(",").filter(one => one.trim() !== "").map(Number);
    const {offsets} = await post("/api/offsets/plan", {group: name, topic, to: data.get("to"), partitions: numbers});
    const lines = offsets.slice(0, 20).map(one => `${one.partition}: ${full(one.before)} → ${full(one.after)}`).join("\n") + (offsets.length > 20 ? `\nand ${offsets.length - 20} more` : "");
    if (!await agreed(`Set the offsets of group ${visible(name)} in ${visible(topic)}?\n${lines}`, "Set")) return;
    await post("/api/offsets/set", {group: name, confirm: name, topic, offsets: Object.fromEntries(offsets.map(one => [one.partition, one.after]))});
    refresh();
    return "set";
  }), field("Topic", input("topic", topics[0], {required: "", list: "topics"})), make("datalist", {id: "topics"}, ...topics.map(value => make("option", {value}))),
    field("Partitions", input("partitions", "", {placeholder: "all", class: "narrow"})),
    field("To", input("to", "", {required: "", placeholder: "earliest, latest, 1500, 2h", title: "earliest, latest, an offset, a time, or how long ago"}), "grow"), make("button", {class: "main"}, "Set…")));
}

const unanswered = brokers => brokers.length ? make("p", {class: "bad"}, `${brokers.length === 1 ? "broker" : "brokers"} ${brokers.join(", ")} did not answer: what is coordinated there is not shown`) : "";

async function groupsView() {
  const found = await get("/api/groups");
  const rows = found.groups.map(one => [link({view: "group", name: one.group}, visible(one.group)),
    make("span", {class: one.state === "Stable" ? "good" : ""}, one.error === null ? visible(one.state ?? "–") : make("span", {class: "bad"}, visible(one.error))),
    full(one.members), visible(one.type ?? one.protocol ?? "–"), String(one.coordinator)]);
  return [card(make("div", {class: "head"}, make("h2", {}, "Groups"), make("span", {class: "soft"}, String(rows.length))),
    rows.length ? table("llrlr", ["Group", "State", "Members", "Type", "Coordinator"], rows) : quiet("no consumer has joined a group or committed offsets"),
    unanswered(found.unreachable))];
}

async function groupView(parameters) {
  const name = parameters.get("name"), group = await get("/api/group", {name}), clients = new Map(group.members.map(one => [one.member, one.instance ?? one.client]));
  const behind = [...group.partitions].sort((a, b) => (b.lag ?? -1) - (a.lag ?? -1));
  const leaderless = group.partitions.filter(one => one.why_unknown === "no leader").length;
  const rows = behind.map(one => [make("span", {}, link({view: "topic", name: one.topic}, visible(one.topic)), ` : ${one.partition}`), full(one.offset), one.latest === null ? one.why_unknown : full(one.latest),
    full(one.lag), visible(clients.get(one.member) ?? "–")]);
  const members = group.members.map(one => [visible(one.instance ?? one.member), visible(one.client), visible(one.host), full(group.partitions.filter(each => each.member === one.member).length)]);
  return [card(make("div", {class: "head"}, make("h2", {}, visible(name))),
    make("div", {class: "tiles"}, tile("lag", full(group.lag), leaderless ? `offsets behind; ${leaderless} without a leader` : "offsets behind"), tile("state", visible(group.state ?? "–"), "state"),
      tile("members", full(group.members.length), "members"), tile("assignor", visible(group.assignor || "–"), "assignor"))),
    card(make("h2", {}, "Partitions"), rows.length ? table("lrrrl", ["Partition", "Offset", "End of log", "Lag", "Client"], rows) : quiet("no offsets committed, no partitions assigned")),
    card(make("h2", {}, "Members"), members.length ? table("lllr", ["Member", "Client", "Host", "Partitions"], members) : quiet("none now")), writes ? offsetsCard(group, name) : ""];
}

async function transactionsView() {
  const found = await get("/api/transactions");
  const rows = found.transactions.map(one => [visible(one.transactional_id), one.state, make("span", {class: one.open_for_s > 60 ? "bad" : ""}, seconds(one.open_for_s)), seconds(one.timeout_s),
    `${one.producer_id} / ${one.producer_epoch}`, visible(one.partitions.slice(0, 3).join(", ") + (one.partitions.length > 3 ? ` and ${one.partitions.length - 3} more` : ""))]);
  return [card(make("div", {class: "head"}, make("h2", {}, "Open transactions"), make("span", {class: "soft"}, found.more ? `${rows.length} of ${rows.length + found.more}` : String(rows.length))),
    rows.length ? table("llrrrl", ["Transactional id", "State", "Open for", "Timeout", "Producer / epoch", "Partitions"], rows) : quiet("none is open"),
    unanswered(found.unreachable),
    quiet("Readers of committed data see no record behind an open transaction until it ends. The brokers abort it after its timeout."))];
}

let writes = false;  // may the page change anything?
const views = () => ({topics: topicsView, topic: topicView, groups: groupsView, group: groupView, transactions: transactionsView, ...(writes ? {create: createView} : {})});
const MENU = {topic: "topics", create: "topics", group: "groups"};  // where a view's entry is not its own name
let drawn = 0;  // the number of the newest drawing: an answer that comes late changes nothing
let drawnAt = null;  // the fragment of the address that is shown

function showCluster(cluster, shown) {
  const [first, ...others] = cluster.bootstrap, address = first + (others.length ? ` and ${others.length} more` : "");
  const summary = document.getElementById("summary"), brokers = cluster.brokers.length;
  summary.textContent = `${address} · ${brokers === 1 ? "1 broker" : brokers + " brokers"} · cluster ${visible(cluster.cluster_id ?? "without an id")}`;
  summary.title = cluster.bootstrap.join(", ");
  document.title = `${visible(shown)} · ${address} · kafkasource`;
}

async function refresh() {
  const number = ++drawn, parameters = state(), wanted = parameters.get("view") ?? "topics", at = location.hash;
  const problem = document.getElementById("problem"), ask = document.getElementById("ask"), view = document.getElementById("view");
  for (const each of document.querySelectorAll("#nav a")) each.ariaCurrent = each.hash === "#view=" + (MENU[wanted] ?? wanted) ? "page" : null;
  document.body.dataset.loaded = "no";
  try {
    const cluster = await get("/api/cluster");
    writes = cluster.writes;
    const known = views(), nodes = await (Object.hasOwn(known, wanted) ? known[wanted] : topicsView)(parameters);
    if (number !== drawn) return;
    showCluster(cluster, parameters.get("name") ?? wanted);
    view.replaceChildren(...nodes);
    if (drawnAt !== null && drawnAt !== at) { scrollTo(0, 0); view.focus({preventScroll: true}); }
    ask.hidden = problem.hidden = true;
  } catch (error) {
    if (number !== drawn) return;
    if (drawnAt !== at) view.replaceChildren();
    const old = view.childElementCount ? "; what is shown is old" : "";
    ask.hidden = error.status !== 401;
    problem.hidden = error.status === 401;
    problem.textContent = (error.status === undefined ? `no answer from pykafka ui (${error.message})` : visible(error.message)) + old;
    if (error.status === 401) document.getElementById("summary").textContent = "the server wants the token that pykafka ui printed";
  }
  drawnAt = at;
  document.body.dataset.loaded = "yes";
}
document.getElementById("refresh").addEventListener("click", refresh);
addEventListener("hashchange", refresh);
refresh();

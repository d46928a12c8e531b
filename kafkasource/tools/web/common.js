"use strict";
/* The token comes in the fragment of the address, which no server sees, or from the form; it stays in this tab. */
const asked = new URLSearchParams(location.hash.slice(1)), given = asked.get("token");
asked.delete("token");
if (given !== null) { sessionStorage.setItem("token", given); history.replaceState(null, "", location.pathname + (asked.size ? "#" + asked : "")); }
const authorized = () => { const token = sessionStorage.getItem("token"); return token === null ? {} : {Authorization: "Bearer " + token}; };
document.getElementById("ask").addEventListener("submit", event => {
  event.preventDefault(); sessionStorage.setItem("token", event.target.querySelector("input").value); refresh();
});

const make = (tag, attributes = {}, ...children) => {
  const svg = ["svg", "path", "line"].includes(tag);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children.filter(child => child !== null));
  return node;
};
const full = number => number === null || number === undefined ? "–" : Math.round(number).toLocaleString("en-US");
const short = number => {
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (Math.abs(number) >= size) return (number / size).toFixed(number >= 10 * size ? 0 : 1) + unit;
  return Number.isInteger(number) ? String(number) : number.toFixed(1);
};
const seconds = s => s === null ? "–" : s < 10 ? s.toFixed(1) + " s" : s < 120 ? s.toFixed(0) + " s"
  : s < 7200 ? (s / 60).toFixed(0) + " min" : (s / 3600).toFixed(1) + " h";
const size = bytes => { let n = bytes, u = 0; while (n >= 1024 && u < 4) { n /= 1024; u++; } return (u && n < 10 ? n.toFixed(1) : n.toFixed(0)) + " " + ["B", "KiB", "MiB", "GiB", "TiB"][u]; };

/* `columns`: l or r for each, as in LaTeX: texts stand at the left, numbers at the right. */
function table(columns, head, rows) {
  const row = (tag, cells) => make("tr", {}, ...cells.map((cell, n) => make(tag, {class: columns[n], ...(tag === "td" ? {"data-head": head[n]} : {scope: "col"})}, cell)));
  return make("table", {}, make("thead", {}, row("th", head)), make("tbody", {}, ...rows.map(cells => row("td", cells))));
}
